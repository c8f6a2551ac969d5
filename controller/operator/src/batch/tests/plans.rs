//! Plans as a table: a batch, its pods and its snapshot, and what is to be done.

use sandgate_objects::opensandbox::names;
use serde_json::json;

use super::case::{Case, NOW, at};
use crate::Again;
use crate::batch::plan::{Plan, Settle, SnapshotStep, TaskStep, Turn, plan};

impl Case {
    fn plan(&self) -> Plan {
        plan(&self.observed(), Some("pull"))
    }

    fn settled(&self) -> Settle {
        match self.plan() {
            Plan::Settle(settle) => *settle,
            other => panic!("{other:?}"),
        }
    }

    /// The plan in words.
    fn words(&self) -> String {
        match self.plan() {
            Plan::Delete => "delete".to_owned(),
            Plan::Assign(profile) => format!("assign {profile}"),
            Plan::Begin(_) => "begin".to_owned(),
            Plan::Patch(patch) => format!("patch {patch}"),
            Plan::Detach { unseen, .. } => format!("detach {}", unseen.len()),
            Plan::Unpool(_) => "unpool".to_owned(),
            Plan::Settle(settle) => words(&settle, !self.batch["spec"]["taskTemplate"].is_null()),
        }
    }
}

fn words(settle: &Settle, has_tasks: bool) -> String {
    let turn = match &settle.turn {
        Turn::Hold => "hold",
        Turn::Steady => "steady",
        Turn::Waiting => "waiting",
        Turn::Pausing => "pausing",
        Turn::PauseRefused { reason, .. } | Turn::ResumeFailed { reason, .. } => reason,
        Turn::PauseFailed(_) => "pause failed",
        Turn::Paused => "paused",
        Turn::Resuming => "resuming",
    };
    let mut words = vec![turn.to_owned()];
    words.extend(settle.create.iter().map(|index| format!("+{index}")));
    words.extend(settle.delete.iter().map(|pod| format!("-{}", pod.key.name)));
    words.extend(match settle.snapshot {
        SnapshotStep::Keep => None,
        SnapshotStep::Create => Some("+snapshot".to_owned()),
        SnapshotStep::Delete(_) => Some("-snapshot".to_owned()),
    });
    words.extend(settle.replace.iter().map(|pod| format!("-+{}", pod.key.name)));
    let tasks = match settle.tasks {
        TaskStep::None => None,
        TaskStep::Run => Some("run"),
        TaskStep::Stop => Some("stop"),
        TaskStep::End => Some("end"),
        TaskStep::Forget => has_tasks.then_some("forget"),
    };
    words.extend(tasks.map(str::to_owned));
    words.join(" ")
}

#[test]
fn what_is_there_and_what_is_asked_for_lead_to_a_plan() {
    let task = || json!({"spec": {"process": {"command": ["x"]}}});
    let phase = Case::in_phase;
    let replicas = |count: i32, case: Case| case.set("spec.replicas", json!(count));
    let finalizer = |name: &str, case: Case| case.set("metadata.finalizers", json!([name]));
    let patched = "patch {\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"image\":\"kept\",\
                   \"name\":\"main\"}],\"imagePullSecrets\":[{\"name\":\"pull\"}]}}}}";
    let resumed = |case: Case| {
        case.set("spec.template.spec.containers", json!([{"name": "main", "image": "kept"}]))
            .set("spec.template.spec.imagePullSecrets", json!([{"name": "pull"}]))
    };
    let rows = [
        // Pods.
        ("new", phase(""), "steady +0"),
        ("of none", replicas(0, phase("")), "steady"),
        ("has it", phase("Succeed").pod("b-0", true), "steady"),
        (
            "lacks one in the middle",
            replicas(3, phase("Succeed")).pod("b-0", true).pod("b-2", true),
            "steady +1",
        ),
        ("the old one ends first", phase("Succeed").pod("b-0", true).ending(), "steady"),
        (
            "too many",
            phase("Succeed").pod("b-0", true).pod("b-10", true).pod("b-2", true),
            "steady -b-10 -b-2",
        ),
        ("goes already", phase("Succeed").pod("b-0", true).pod("b-1", true).ending(), "steady"),
        ("without a template", phase("").set("spec.template", json!(null)), "steady"),
        // The end.
        ("expired", phase("Succeed").set("spec.expireTime", json!(at(NOW).to_string())), "delete"),
        (
            "expires later",
            phase("Succeed").pod("b-0", true).set("spec.expireTime", json!(at(NOW + 5).to_string())),
            "steady",
        ),
        ("leaves", phase("Succeed").pod("b-0", true).leaving(), "hold"),
        (
            "leaves after it has expired",
            phase("Succeed").set("spec.expireTime", json!(at(1).to_string())).leaving(),
            "hold",
        ),
        (
            "leaves with tasks",
            finalizer(names::FINALIZER_TASK_CLEANUP, phase("Succeed"))
                .set("spec.taskTemplate", task())
                .leaving(),
            "hold end",
        ),
        (
            "leaves, and its task is gone",
            finalizer(names::FINALIZER_TASK_CLEANUP, phase("Succeed")).leaving(),
            "patch {\"metadata\":{\"finalizers\":[]}}",
        ),
        (
            "leaves without a pool",
            finalizer(names::FINALIZER_POOL_ALLOCATION, phase("Succeed")).leaving(),
            "detach 0",
        ),
        // Tasks and pools.
        ("with a task", phase("").set("spec.taskTemplate", task()), "begin"),
        (
            "with a task and its finalizer",
            finalizer(names::FINALIZER_TASK_CLEANUP, phase("")).set("spec.taskTemplate", task()),
            "steady +0 run",
        ),
        (
            "of a pool, and its task is gone",
            finalizer(names::FINALIZER_TASK_CLEANUP, phase("Succeed")).set("spec.poolRef", json!("p")),
            "patch {\"metadata\":{\"annotations\":{\"sandgate.dev/recycle\":\"Delete\"},\"finalizers\":[]}}",
        ),
        (
            "is paused, with a task",
            finalizer(names::FINALIZER_TASK_CLEANUP, phase("Paused"))
                .set("spec.taskTemplate", task())
                .snapshot("Succeed"),
            "paused forget",
        ),
        ("of any pool", phase("").set("spec.poolRef", json!("*")), "assign default"),
        ("of a pool", phase("").set("spec.poolRef", json!("p")), "steady"),
        (
            "left its pool",
            finalizer(names::FINALIZER_POOL_ALLOCATION, phase("Succeed"))
                .set("metadata.annotations", json!({names::ANNOTATION_ALLOC_STATUS: "{\"pods\":[\"p-1\"]}"})),
            "detach 1",
        ),
        // A pause.
        ("asked", phase("Succeed").pod("b-0", true).asked(true), "pausing"),
        ("asked while it waits", phase("Pending").asked(true), "pausing"),
        ("asked at once", phase("").asked(true), "pausing"),
        ("heard already", phase("Succeed").pod("b-0", true).set("spec.pause", json!(true)), "steady"),
        ("of two", replicas(2, phase("Succeed")).asked(true), names::REASON_UNSUPPORTED_REPLICAS),
        ("asked again, failed", phase("Succeed").snapshot("Failed").asked(true), "waiting +0 -snapshot"),
        ("asked again, made", phase("Succeed").snapshot("Succeed").asked(true), "waiting +0 -snapshot"),
        (
            "an old snapshot goes",
            phase("Succeed")
                .snapshot("Succeed")
                .snapshots("deletionTimestamp", json!(at(NOW).to_string()))
                .asked(true),
            "waiting +0",
        ),
        (
            "an old snapshot goes during the pause",
            phase("Pausing").snapshot("Succeed").snapshots("deletionTimestamp", json!(at(NOW).to_string())),
            "hold",
        ),
        (
            "a stranger's snapshot",
            phase("Succeed").snapshot("Succeed").snapshots("ownerReferences", json!([])).asked(true),
            names::REASON_SNAPSHOT_FAILED,
        ),
        ("begins", phase("Pausing").pod("b-0", true), "hold +snapshot"),
        (
            "stops tasks first",
            finalizer(names::FINALIZER_TASK_CLEANUP, phase("Pausing")).set("spec.taskTemplate", task()),
            "hold +snapshot stop",
        ),
        ("goes on", phase("Pausing").pod("b-0", true).snapshot("Committing"), "hold"),
        ("goes on, whatever is asked", phase("Pausing").snapshot("Pending").asked(false), "hold"),
        ("has its images", phase("Pausing").pod("b-0", true).snapshot("Succeed"), "paused -b-0"),
        (
            "has its images, of a pool",
            phase("Pausing").snapshot("Succeed").set("spec.poolRef", json!("p")),
            "unpool",
        ),
        ("has failed", phase("Pausing").pod("b-0", true).snapshot("Failed"), "pause failed"),
        ("is paused", phase("Paused").snapshot("Succeed"), "paused"),
        ("is paused, a pod is left", phase("Paused").pod("b-0", true).snapshot("Succeed"), "paused -b-0"),
        (
            "is paused, and its pool's pod has gone since",
            finalizer(names::FINALIZER_POOL_ALLOCATION, phase("Paused")).snapshot("Succeed"),
            "detach 0",
        ),
        (
            "is asked back, and its pool's pod has gone since",
            finalizer(names::FINALIZER_POOL_ALLOCATION, phase("Paused")).snapshot("Succeed").asked(false),
            "resuming",
        ),
        ("is paused, and asked again", phase("Paused").snapshot("Succeed").asked(true), "paused"),
        // A resume.
        ("asked back", phase("Paused").snapshot("Succeed").asked(false), "resuming"),
        ("asked back, not paused", phase("Succeed").pod("b-0", true).asked(false), "steady"),
        ("gets its images", phase("Resuming").snapshot("Succeed"), patched),
        (
            "leaves its pool for good",
            resumed(phase("Resuming")).snapshot("Succeed").set("spec.poolRef", json!("p")),
            "patch {\"spec\":{\"poolRef\":null}}",
        ),
        ("has its images back", resumed(phase("Resuming")).snapshot("Succeed"), "steady +0"),
        (
            "waits for the old pod",
            resumed(phase("Resuming")).snapshot("Succeed").pod("b-0", true).ending(),
            "steady",
        ),
        ("asked to pause meanwhile", resumed(phase("Resuming")).snapshot("Succeed").asked(true), "steady +0"),
        ("nothing to resume from", phase("Resuming"), names::REASON_SNAPSHOT_NOT_FOUND),
        ("is back already", phase("Resuming").pod("b-0", true), "steady"),
        (
            "a ready pod that goes",
            phase("Resuming").pod("b-0", true).ending(),
            names::REASON_SNAPSHOT_NOT_FOUND,
        ),
        ("a pod that is not ready", phase("Resuming").pod("b-0", false), names::REASON_SNAPSHOT_NOT_FOUND),
        ("not made", phase("Resuming").snapshot("Committing"), names::REASON_SNAPSHOT_NOT_READY),
        (
            "without a template",
            phase("Resuming").snapshot("Succeed").set("spec.template", json!(null)),
            "TemplateNotFound",
        ),
        ("is back", phase("Succeed").pod("b-0", true).snapshot("Succeed"), "steady -snapshot"),
        ("is not back yet", phase("Failed").pod("b-0", false).snapshot("Succeed"), "steady"),
        ("its pause failed", phase("Succeed").pod("b-0", true).snapshot("Failed"), "steady"),
    ];
    for (name, case, expected) in rows {
        assert_eq!(case.words(), expected, "{name}");
    }
}

#[test]
fn a_pod_that_its_node_cannot_start_is_replaced_unless_it_is_not_wanted_at_all() {
    let case = |replicas: i32| {
        let case = Case::in_phase("Failed").set("spec.replicas", json!(replicas));
        let mut observed = case.pod("b-0", true).pod("b-1", false).observed();
        observed.stuck.pods = observed.pods[1..].to_vec();
        match plan(&observed, None) {
            Plan::Settle(settle) => (words(&settle, false), settle.needs_confirmation()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(case(2), ("steady -+b-1".to_owned(), true));
    assert_eq!(case(1), ("steady -b-1".to_owned(), true));
    let mut observed = Case::in_phase("Failed").pod("b-0", false).observed();
    observed.stuck.next = Some(at(NOW + 30));
    let Plan::Settle(settle) = plan(&observed, None) else { panic!("it goes on") };
    assert_eq!(settle.again, Again::After(std::time::Duration::from_millis(30_001)));
}

#[test]
fn what_cannot_be_undone_is_confirmed_first() {
    let cases = [
        (Case::in_phase("Paused").pod("b-0", true).snapshot("Succeed"), true),
        (Case::in_phase("Succeed").pod("b-0", true).pod("b-1", true), true),
        (Case::in_phase("Succeed").pod("b-0", true).snapshot("Succeed"), true),
        (Case::in_phase("Pausing"), true),
        (Case::in_phase("Succeed"), false),
        (Case::in_phase("Paused").snapshot("Succeed"), false),
    ];
    for (case, expected) in cases {
        assert_eq!(case.settled().needs_confirmation(), expected, "{}", case.words());
    }
}

#[test]
fn a_deadline_is_looked_at_when_it_comes() {
    for phase in ["", "Succeed", "Paused", "Pausing"] {
        let case = Case::in_phase(phase).set("spec.expireTime", json!(at(NOW + 30).to_string()));
        let expected = Again::After(std::time::Duration::from_millis(30_001));
        assert_eq!(case.settled().again, expected, "{phase}");
    }
    let young = Case::in_phase("").set("spec.poolRef", json!("p"));
    let young = young.set("metadata.creationTimestamp", json!(at(NOW - 1).to_string()));
    assert_eq!(young.settled().again, Again::After(std::time::Duration::from_millis(4001)));
}
