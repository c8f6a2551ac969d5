//! What a test reads of its world.

use super::*;

impl World {
    pub(in crate::pool::tests) fn object(&self, place: &Place) -> Option<Value> {
        self.model.lock().get(place).ok().map(|object| Value::clone(object))
    }

    pub(in crate::pool::tests) fn of_batch(&self, name: &str) -> Option<Value> {
        self.object(&Place::new(&BATCHES, NAMESPACE, name))
    }

    pub(in crate::pool::tests) fn of_pod(&self, name: &str) -> Option<Value> {
        self.object(&Place::new(&PODS, NAMESPACE, name)).filter(|pod| !object::deleting(pod))
    }

    pub(in crate::pool::tests) fn alloc(&self, batch: &str) -> Vec<String> {
        pods_of(&self.of_batch(batch).unwrap(), names::ANNOTATION_ALLOC_STATUS)
    }

    pub(in crate::pool::tests) fn released(&self, batch: &str) -> Vec<String> {
        pods_of(&self.of_batch(batch).unwrap(), names::ANNOTATION_ALLOC_RELEASED)
    }

    /// The names of the batches.
    pub(in crate::pool::tests) fn batches(&self) -> Vec<String> {
        let model = self.model.lock();
        model.list(&BATCHES).map(|batch| text(batch, "/metadata/name").to_owned()).collect()
    }

    pub(in crate::pool::tests) fn wished(&self, batch: &str) -> Vec<String> {
        pods_of(&self.of_batch(batch).unwrap(), names::ANNOTATION_ALLOC_RELEASE)
    }

    pub(in crate::pool::tests) fn wish(&mut self, batch: &str, pods: &[&str]) {
        let text = json!({"pods": pods}).to_string();
        self.edit_batch(batch, |batch| {
            batch["metadata"]["annotations"][names::ANNOTATION_ALLOC_RELEASE] = json!(text);
        });
    }

    pub(in crate::pool::tests) fn mark(&self, pod: &str) -> String {
        self.of_pod(pod).map_or_else(String::new, |pod| {
            let mark = object::annotation(&pod, names::ANNOTATION_ALLOCATED_TO);
            mark.split('/').nth(1).unwrap_or_default().to_owned()
        })
    }

    /// The names of the pods that live.
    pub(in crate::pool::tests) fn live(&self) -> Vec<String> {
        let model = self.model.lock();
        let pods = model.list(&PODS).filter(|pod| !object::deleting(pod));
        pods.map(|pod| text(pod, "/metadata/name").to_owned()).collect()
    }

    pub(in crate::pool::tests) fn status(&self) -> Value {
        self.object(&Place::new(&POOLS, NAMESPACE, POOL)).unwrap()["status"].clone()
    }

    /// The reasons of the events since.
    pub(in crate::pool::tests) fn events(&self) -> Vec<&'static str> {
        self.process.events.take().iter().map(|event: &Published| event.reason).collect()
    }

    /// The commands since, once they have run.
    pub(in crate::pool::tests) async fn restarts(&self) -> Vec<String> {
        rest(Duration::from_millis(1)).await;
        std::mem::take(&mut self.process.exec.commands.lock())
    }

    /// Commands hang from now on, until this is notified.
    pub(in crate::pool::tests) fn commands_hang(&self) -> Arc<Notify> {
        let end = Arc::<Notify>::default();
        *self.process.exec.hangs.lock() = Some(Arc::clone(&end));
        end
    }

    /// How many requests were on their way at most, since the last call.
    pub(in crate::pool::tests) fn most_under_way(&self) -> usize {
        let (now, most) = &mut self.script.lock().under_way;
        std::mem::replace(most, *now)
    }

    /// What a metric counts: its name with its labels.
    pub(in crate::pool::tests) fn counted(&self, metric: &str) -> f64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.process.metrics).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {metric} in {text}")).parse().unwrap()
    }
}
