//! The pod that a sandbox is given.

use sandgate_objects::openkruise::resources::PodTemplate;
use serde_json::json;

use super::fixture::Case;
use crate::sandbox::plan::PodStep;
use crate::sandbox::pod::Template;

#[test]
fn the_pod_is_the_template_with_the_sandboxs_name_and_marks() {
    let case = Case::new();
    let PodStep::Create { claims, pod } = case.settled().0.pod else { panic!() };
    let template = case.read_template();
    assert_eq!(claims, Vec::<serde_json::Value>::new());
    assert_eq!(
        pod["metadata"],
        json!({
            "name": "s",
            "namespace": "n",
            "labels": {
                "app": "x",
                "agents.kruise.io/created-by": "sandbox",
                "agents.kruise.io/sandbox-name": "s",
                "pod-template-hash": template.revision,
            },
            "annotations": {
                "note": "y",
                "agents.kruise.io/created-by": "sandbox",
                "sandbox.agents.kruise.io/hash-immutable-part": template.fixed,
            },
            "ownerReferences": [{
                "apiVersion": "agents.kruise.io/v1alpha1", "kind": "Sandbox", "name": "s", "uid": "sandbox-uid",
                "controller": true, "blockOwnerDeletion": true,
            }],
        })
    );
    assert_eq!(pod["spec"], template.pod["spec"]);
}

#[test]
fn volume_claims_belong_to_the_sandbox_and_become_volumes_of_the_pod() {
    let case = Case::new()
        .set("/spec/volumeClaimTemplates", json!([{"metadata": {"name": "data"}, "spec": {"x": 1}}]))
        .templated(
            "/spec/volumes",
            json!([{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]),
        );
    let PodStep::Create { claims, pod } = case.settled().0.pod else { panic!() };
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0]["metadata"]["name"], "data-s");
    assert_eq!(claims[0]["metadata"]["ownerReferences"][0]["uid"], "sandbox-uid");
    assert_eq!(claims[0]["spec"], json!({"x": 1}));
    let volumes = json!([
        {"name": "tmp", "emptyDir": {}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-s"}},
    ]);
    assert_eq!(pod["spec"]["volumes"], volumes);
}

#[test]
fn a_template_without_containers_makes_no_pod() {
    assert!(Template::read(&PodTemplate::new(&json!({"spec": {}})), &[]).is_err());
}
