//! A running sandbox whose template changes.

use serde_json::json;

use super::fixture::Case;
use crate::sandbox::plan::PodStep;

fn running() -> Case {
    Case::in_phase("Running")
}

/// What is sent once the status says so.
fn patched(case: &Case) -> serde_json::Value {
    assert_eq!(case.settled().step(), "keep", "first the status says so");
    match case.clone().after().settled().0.pod {
        PodStep::Patch { patch, .. } => *patch,
        other => panic!("{other:?}"),
    }
}

#[test]
fn labels_and_annotations_are_patched_without_a_word() {
    let case = running().templated("/metadata/labels/tier", json!("gold"));
    let plan = case.settled();
    assert_eq!(plan.ready().0, "True");
    assert_eq!(plan.condition("InplaceUpdate"), ("", ""));
    let patch = patched(&case);
    assert_eq!(patch["metadata"]["labels"]["tier"], "gold");
    assert_eq!(patch["metadata"]["labels"]["pod-template-hash"], case.read_template().revision);
    assert_eq!(patch["spec"], json!(null));
}

#[test]
fn another_image_is_updated_in_place_and_the_sandbox_is_not_ready_until_it_runs() {
    let case = running().templated("/spec/containers/0/image", json!("base:2"));
    let plan = case.settled();
    assert_eq!(plan.ready(), ("False", "InplaceUpdating"));
    assert_eq!(plan.condition("InplaceUpdate"), ("False", "InplaceUpdating"));
    assert_eq!(case.clone().after().settled().ready(), ("False", "InplaceUpdating"));
    assert_eq!(patched(&case)["spec"], json!({"containers": [{"name": "main", "image": "base:2"}]}));

    let revision = case.read_template().revision;
    let sent = case
        .after()
        .pod("/metadata/labels/pod-template-hash", json!(revision))
        .pod("/spec/containers/0/image", json!("base:2"));
    let plan = sent.settled();
    assert_eq!(
        (plan.step(), plan.ready()),
        ("keep", ("False", "InplaceUpdating")),
        "the old image still runs"
    );
    let done = sent.pod("/status/containerStatuses/0/image", json!("docker.io/library/base:2"));
    let plan = done.settled();
    assert_eq!(plan.condition("InplaceUpdate"), ("True", "Succeeded"));
    assert_eq!((plan.step(), plan.ready().0), ("keep", "True"));
}

#[test]
fn a_second_update_waits_for_the_first() {
    let updating = running()
        .condition("InplaceUpdate", "False", "InplaceUpdating")
        .pod("/spec/containers/0/image", json!("base:2"))
        .templated("/spec/containers/0/image", json!("base:3"));
    assert_eq!(updating.settled().step(), "keep");
    let done = updating.pod("/status/containerStatuses/0/image", json!("base:2"));
    assert_eq!(done.settled().condition("InplaceUpdate"), ("False", "InplaceUpdating"), "of the second");
    assert_eq!(done.after().settled().step(), "patch");
}

#[test]
fn other_resources_go_by_the_resize_subresource() {
    let case = running().templated("/spec/containers/0/resources/limits/cpu", json!("2"));
    let plan = case.after().settled();
    assert_eq!(plan.step(), "resize");
    let PodStep::Patch { resize: Some(resize), patch } = plan.0.pod else { panic!() };
    assert_eq!(resize["spec"]["containers"][0]["resources"]["limits"]["cpu"], "2");
    assert_eq!(patch["spec"], json!(null));
    let written_otherwise = running().templated("/spec/containers/0/resources/limits/cpu", json!("1000m"));
    assert_eq!(written_otherwise.after().settled().step(), "patch", "only the revision is new");
}

#[test]
fn a_node_that_has_no_room_fails_the_update() {
    let updating = running().condition("InplaceUpdate", "False", "InplaceUpdating").pod(
        "/status/conditions",
        json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "no room"}]),
    );
    assert_eq!(updating.settled().condition("InplaceUpdate"), ("False", "Failed"));
}

#[test]
fn a_change_that_cannot_be_made_in_place_is_refused_and_the_pod_is_left_alone() {
    let case = running().templated("/spec/terminationGracePeriodSeconds", json!(1));
    let plan = case.settled();
    assert_eq!((plan.step(), plan.phase(), plan.ready().0), ("keep", "Running", "True"));
    assert_eq!(plan.condition("InplaceUpdate"), ("False", "InplaceUpdateForbidden"));
    let taken_back = Case { template: Some(super::fixture::template()), ..case.after() };
    assert_eq!(taken_back.settled().condition("InplaceUpdate"), ("", ""));
}

#[test]
fn an_update_that_was_refused_is_not_tried_again_until_the_template_changes() {
    let case = running().templated("/spec/containers/0/image", json!("base:2"));
    let refused = case.after().condition("InplaceUpdate", "False", "Failed");
    let mut refused = refused;
    refused.sandbox["status"]["conditions"].as_array_mut().unwrap().retain(|it| it["reason"] == "Failed");
    assert_eq!(refused.settled().step(), "keep");
    let another = refused.templated("/spec/containers/0/image", json!("base:3"));
    assert_eq!(another.settled().condition("InplaceUpdate"), ("False", "InplaceUpdating"));
}

#[test]
fn labels_are_patched_also_after_an_update_that_was_refused() {
    for reason in ["Failed", "InplaceUpdateForbidden"] {
        let refused = running().condition("InplaceUpdate", "False", reason);
        let case = refused.templated("/metadata/labels/tier", json!("gold"));
        assert_eq!(case.settled().condition("InplaceUpdate"), ("", ""), "what {reason} was about is gone");
        assert_eq!(patched(&case)["metadata"]["labels"]["tier"], "gold");
    }
}

#[test]
fn recreate_replaces_the_pod() {
    let policy = json!({"type": "Recreate"});
    let case = running().set("/spec/upgradePolicy", policy).templated("/spec/hostname", json!("h"));
    let plan = case.settled();
    assert_eq!((plan.phase(), plan.step(), plan.ready()), ("Upgrading", "keep", ("False", "Upgrading")));
    assert_eq!(plan.condition("Upgrading"), ("False", "UpgradePod"));
    let said = case.after();
    assert_eq!((said.settled().phase(), said.settled().step()), ("Upgrading", "delete"));
    let ending = said.deleting_pod();
    assert_eq!((ending.settled().phase(), ending.settled().step()), ("Upgrading", "keep"));
    let gone = ending.without_pod();
    assert_eq!((gone.settled().phase(), gone.settled().step()), ("Upgrading", "create"));
    let up = gone.after().with_pod("Running", true).pod("/metadata/uid", json!("new"));
    let plan = up.settled();
    assert_eq!((plan.phase(), plan.ready().0), ("Running", "True"));
    assert_eq!(plan.condition("Upgrading"), ("True", "Succeeded"));
    assert_eq!(up.after().settled().step(), "keep");
}

#[test]
fn recreate_with_hooks_and_checkpoint_restore_are_refused() {
    let changed = |policy: &str| {
        running().set("/spec/upgradePolicy", json!({"type": policy})).templated("/spec/hostname", json!("h"))
    };
    let hooks =
        changed("Recreate").set("/spec/lifecycle", json!({"preUpgrade": {"exec": {"command": ["x"]}}}));
    assert_eq!(hooks.settled().condition("Upgrading"), ("False", "PreUpgradeFailed"));
    assert_eq!((hooks.settled().step(), hooks.settled().phase()), ("keep", "Running"));
    let checkpoint = changed("CheckpointRestore");
    assert_eq!(checkpoint.settled().condition("Upgrading"), ("False", "CheckpointFailed"));
    assert_eq!((checkpoint.settled().step(), checkpoint.settled().phase()), ("keep", "Running"));
}

#[test]
fn an_upgrade_that_was_refused_is_forgotten_when_the_template_is_taken_back() {
    let policy = json!({"type": "CheckpointRestore"});
    let refused =
        running().set("/spec/upgradePolicy", policy).templated("/spec/hostname", json!("h")).after();
    assert_eq!(refused.settled().condition("Upgrading"), ("False", "CheckpointFailed"));
    let taken_back = Case { template: Some(super::fixture::template()), ..refused };
    assert_eq!(taken_back.settled().condition("Upgrading"), ("", ""));
}

/// A running sandbox with a pod of OpenKruise's controller, which hashes otherwise.
fn taken_over(policy: Option<&str>) -> Case {
    let mut case = running();
    if let Some(policy) = policy {
        case = case.set("/spec/upgradePolicy", json!({"type": policy}));
    }
    let annotations = &mut case.pod.as_mut().unwrap()["metadata"]["annotations"];
    annotations.as_object_mut().unwrap().remove("sandbox.agents.kruise.io/hash-immutable-part");
    case.pod("/metadata/labels/pod-template-hash", json!("theirs"))
}

#[test]
fn a_pod_of_openkruises_controller_is_taken_over_as_it_is_whatever_the_policy() {
    for policy in [None, Some("Recreate"), Some("CheckpointRestore")] {
        let plan = taken_over(policy).settled();
        assert_eq!((plan.phase(), plan.step(), plan.ready().0), ("Running", "patch", "True"), "{policy:?}");
        assert_eq!(plan.condition("Upgrading"), ("", ""), "{policy:?}");
        let PodStep::Patch { patch, .. } = plan.0.pod else { panic!() };
        let fixed = &patch["metadata"]["annotations"]["sandbox.agents.kruise.io/hash-immutable-part"];
        assert_eq!(*fixed, running().read_template().fixed, "the next change is compared");
    }
    let changed = taken_over(Some("Recreate")).templated("/spec/containers/0/image", json!("base:2"));
    assert_eq!(changed.settled().phase(), "Upgrading", "a change that can be seen is one");
}

#[test]
fn a_pod_that_has_not_run_yet_is_replaced_when_its_template_is_mended() {
    for phase in ["Pending", "Resuming", "Upgrading"] {
        let last = if phase == "Pending" { "pod-uid" } else { "before" };
        let stuck = Case::in_phase(phase)
            .set("/status/podInfo/podUID", json!(last))
            .with_pod("Pending", false)
            .waiting("ImagePullBackOff");
        assert_eq!(stuck.settled().step(), "keep", "{phase}");
        let mended = stuck.templated("/spec/containers/0/image", json!("base:2"));
        assert_eq!(mended.settled().step(), "keep", "{phase}: first the status says so");
        let said = mended.after();
        assert_eq!((said.settled().phase(), said.settled().step()), (phase, "discard"));
        let ending = said.clone().deleting_pod();
        assert_eq!(ending.settled().step(), "keep", "{phase}");
        assert_eq!(said.without_pod().settled().step(), "create", "{phase}");
    }
}
