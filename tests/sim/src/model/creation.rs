//! Creation: what the server gives to a new object.

use std::sync::Arc;

use serde_json::{Value, json};

use super::object::{metadata, part, text, tidy};
use super::{Kind, Model, Place, Refusal, rules, same_kind, stamp};
use crate::random::mix;

impl Model {
    /// Makes an object.
    ///
    /// # Errors
    /// 409 `AlreadyExists`; 422 for what the API server would refuse.
    pub fn create(
        &mut self,
        kind: &'static Kind,
        namespace: &str,
        mut object: Value,
    ) -> Result<Arc<Value>, Refusal> {
        same_kind(kind, &object)?;
        let prefix = text(&object, "/metadata/generateName").to_owned();
        let mut name = text(&object, "/metadata/name").to_owned();
        if name.is_empty() {
            if prefix.is_empty() {
                let place = Place::new(kind, namespace, "");
                return Err(Refusal::invalid(
                    &place,
                    "metadata.name: Required value: name or generateName is required",
                ));
            }
            name = self.generate(&prefix);
        }
        let place = Place::new(kind, namespace, &name);
        rules::create(&place, &object)?;
        if self.objects.contains_key(&place) {
            return Err(Refusal::already_exists(&place));
        }
        self.created += 1;
        let uid = self.uid();
        let created = stamp(self.now);
        let fields = metadata(&mut object);
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields"] {
            fields.remove(field);
        }
        fields.insert("name".to_owned(), json!(name));
        fields.insert("namespace".to_owned(), json!(namespace));
        fields.insert("uid".to_owned(), json!(uid));
        fields.insert("creationTimestamp".to_owned(), json!(created));
        if kind.generation {
            fields.insert("generation".to_owned(), json!(1));
        }
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.kind);
        if kind.status
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
        if kind.graceful() {
            part(&mut object, "spec").entry("terminationGracePeriodSeconds").or_insert_with(|| json!(30));
            part(&mut object, "status").insert("phase".to_owned(), json!("Pending"));
        }
        tidy(&mut object);
        Ok(self.put(&place, object))
    }

    /// A UID that no other object of this seed has.
    fn uid(&self) -> String {
        let (high, low) = (mix(self.seed ^ self.created), mix(self.seed.wrapping_add(self.created << 20)));
        format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            low >> 52,
            low & 0xffff_ffff_ffff
        )
    }

    fn generate(&mut self, prefix: &str) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let suffix = (0..5).map(|_| char::from(*self.names.pick(LETTERS)));
        prefix.chars().take(58).chain(suffix).collect()
    }
}
