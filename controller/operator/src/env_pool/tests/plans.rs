use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::SandboxPoolSpec;
use serde_json::{Value, json};

use super::world::seen;
use crate::env_pool::plan::{Observed, Plan, max_unavailable, plan};
use crate::view::{EnvPodCounts, EnvPods};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn pod(name: &str, ready: bool, marked: Option<&str>) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "n", "uid": name, "resourceVersion": "1",
            "creationTimestamp": "1970-01-01T00:00:00Z",
            "labels": {(names::LABEL_TEMPLATE_HASH): "old"},
            "annotations": marked.map(|at| json!({(names::ANNOTATION_SCALE_DOWN): at})),
        },
        "spec": {"containers": []},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    })
}

fn pods(prefix: &str, count: usize, ready: bool) -> EnvPods {
    (0..count).map(|number| seen(&pod(&format!("{prefix}{number}"), ready, None))).collect()
}

fn marked(seconds: &[i64]) -> EnvPods {
    let of = |second: &i64| seen(&pod(&format!("m{second}"), true, Some(&at(*second).to_string())));
    seconds.iter().map(of).collect()
}

/// A pool at second 1000 with these idle pods.
fn observed(desired: usize, ready: usize, unready: usize, marks: &[i64], running: usize) -> Observed {
    let idle = ready + unready + marks.len();
    Observed {
        desired,
        counts: EnvPodCounts {
            idle,
            idle_ready: ready,
            idle_unready: unready,
            idle_marked: marks.len(),
            running,
            ..EnvPodCounts::default()
        },
        revision: "new".into(),
        max_unavailable: 1,
        window: SignedDuration::from_secs(10),
        ready: pods("r", ready, true),
        unready: pods("u", unready, false),
        marked: marked(marks),
        now: at(1000),
        ..Observed::default()
    }
}

fn names(pods: &EnvPods) -> Vec<&str> {
    pods.iter().map(|pod| &*pod.key.name).collect()
}

/// What a plan does, in a line.
fn line(plan: &Plan) -> String {
    let Plan { create, mark, unmark, delete, again } = plan;
    let again = again.map(|at| at.as_second());
    format!(
        "+{create} mark {:?} unmark {:?} delete {:?} {again:?}",
        names(mark),
        names(unmark),
        names(delete)
    )
}

#[test]
fn the_number_of_pods() {
    for (what, observed, wanted) in [
        ("missing", observed(5, 2, 0, &[], 1), "+2 mark [] unmark [] delete [] None"),
        ("whole", observed(3, 2, 0, &[], 1), "+0 mark [] unmark [] delete [] None"),
        ("unready first", observed(1, 2, 1, &[], 0), r#"+0 mark ["r0"] unmark [] delete ["u0"] None"#),
        ("many at once", observed(1, 4, 0, &[], 0), r#"+0 mark ["r0", "r1", "r2"] unmark [] delete [] None"#),
        ("window", observed(0, 0, 0, &[991], 0), "+0 mark [] unmark [] delete [] Some(1001)"),
        ("after it", observed(0, 0, 0, &[990], 0), r#"+0 mark [] unmark [] delete ["m990"] None"#),
        (
            "some stay",
            observed(1, 0, 0, &[995, 980], 0),
            r#"+0 mark [] unmark ["m995"] delete ["m980"] None"#,
        ),
        ("wanted again", observed(1, 0, 0, &[980], 0), r#"+0 mark [] unmark ["m980"] delete [] None"#),
        ("sandboxes stay", observed(0, 1, 0, &[], 5), r#"+0 mark ["r0"] unmark [] delete [] None"#),
        ("ahead", observed(0, 0, 0, &[1001], 0), r#"+0 mark ["m1001"] unmark [] delete [] None"#),
    ] {
        let mut observed = observed;
        // Every pod is of the present revision.
        observed.revision = "old".into();
        assert_eq!(line(&plan(&observed)), wanted, "{what}");
    }
}

#[test]
fn pods_that_were_asked_for_count_and_no_more_are_made_than_admitted() {
    let mut some = observed(5, 1, 0, &[], 0);
    some.reserved = 2;
    assert_eq!(plan(&some).create, 2);
    some.admitted = Some(4);
    assert_eq!(plan(&some).create, 1);
    some.admitted = Some(0);
    assert_eq!(plan(&some).create, 0);
    some.admitted = None;
    some.wait = Some(at(1030));
    assert_eq!((plan(&some).create, plan(&some).again), (0, Some(at(1030))));
}

#[test]
fn a_marked_pod_that_is_not_ready_goes_at_once() {
    let mut some = observed(0, 0, 0, &[], 0);
    some.counts.idle = 1;
    some.counts.idle_marked = 1;
    some.marked = vec![seen(&pod("m", false, Some("1970-01-01T00:16:40Z")))];
    assert_eq!(names(&plan(&some).delete), ["m"]);
}

#[test]
fn a_pod_that_cannot_be_used_goes_when_it_is_replaced() {
    let mut some = observed(2, 1, 0, &[], 0);
    some.failed = pods("f", 1, false);
    some.counts.failed = 1;
    assert_eq!(names(&plan(&some).delete), Vec::<&str>::new());
    let mut some = observed(1, 1, 0, &[], 0);
    some.failed = pods("f", 1, false);
    assert_eq!(names(&plan(&some).delete), ["f0"]);
}

#[test]
fn old_pods_are_replaced_within_the_budget() {
    let rolled = |budget: usize, ready: usize, unready: usize, marks: &[i64], running: usize| {
        let mut some = observed(ready + unready + marks.len() + running, ready, unready, marks, running);
        some.max_unavailable = budget;
        some.stale_ready = pods("r", ready.min(budget), true);
        some.stale_unready = pods("u", unready.min(budget), false);
        let plan = plan(&some);
        (plan.mark.len(), plan.delete.len(), plan.unmark.len())
    };
    // (marked, deleted, marks taken off)
    assert_eq!(rolled(2, 10, 0, &[], 0), (2, 0, 0));
    assert_eq!(rolled(2, 8, 2, &[], 0), (0, 2, 0), "two are missing already");
    assert_eq!(rolled(2, 9, 1, &[], 0), (1, 1, 0));
    assert_eq!(rolled(2, 8, 0, &[990, 991], 0), (0, 1, 0), "a mark counts");
    assert_eq!(rolled(1, 8, 0, &[990, 991], 0), (0, 1, 1), "a mark beyond the budget is taken off");
    assert_eq!(rolled(4, 4, 0, &[], 16), (2, 0, 0), "half of the idle pods of a pool in use stay");
    assert_eq!(rolled(1, 0, 0, &[], 5), (0, 0, 0));
}

#[test]
fn a_pool_that_lacks_pods_makes_them_before_it_replaces_others() {
    let mut some = observed(5, 4, 0, &[], 0);
    some.stale_ready = pods("r", 4, true);
    let plan = plan(&some);
    assert_eq!((plan.create, plan.mark.len(), plan.delete.len()), (1, 0, 0));
}

#[test]
fn the_budget_is_rounded_down_and_at_least_one() {
    let of = |replicas: i32, max: Option<IntOrString>| {
        max_unavailable(&SandboxPoolSpec { replicas, max_unavailable: max, ..SandboxPoolSpec::default() })
    };
    let text = |text: &str| Some(IntOrString::String(text.to_owned()));
    assert_eq!([of(0, None), of(4, None), of(10, None), of(14, None), of(15, None)], [1, 1, 2, 2, 3]);
    assert_eq!([of(10, text("50%")), of(10, text("250%")), of(10, text("half"))], [5, 10, 2]);
    assert_eq!([of(10, Some(IntOrString::Int(0))), of(10, Some(IntOrString::Int(7)))], [1, 7]);
    assert_eq!(of(-5, Some(IntOrString::Int(-3))), 1);
}
