//! The wire to the API server breaks in every way a wire can; the table follows all the same, and serves
//! meanwhile.

use sandgate_tests::kubernetes::{ApiServer, Ask, Fault, Kind, Object, Wire, kruise};
use sandgate_tests::{Gateway, Sandbox};
use serde_json::{Value, json};

use super::{ask, refused, sandbox, served, watching};

const NOT_FOUND: (u16, &str) = (502, "sandbox_not_found");

/// A gateway on a wire, with one sandbox whose object moves between two addresses.
struct Mover {
    api: ApiServer,
    namespace: String,
    wire: Wire,
    gateway: Gateway,
    places: [Sandbox; 2],
    object: Object,
    at: usize,
}

impl Mover {
    async fn start() -> Self {
        let api = ApiServer::shared().await;
        let (namespace, wire) = (api.namespace("wire").await, Wire::to(&api).await);
        let places = [sandbox("here").await, sandbox("there").await];
        let object = kruise(&api, &namespace, "mover").running(places[0].ip()).create().await;
        let gateway = watching(&wire.kubeconfig(wire.admin_token()), &namespace).start().await;
        let mover = Self { api, namespace, wire, gateway, places, object, at: 0 };
        mover.is_served().await;
        mover
    }

    fn request(&self) -> sandgate_tests::Request {
        ask(Kind::OpenKruise, &self.namespace, "mover")
    }

    /// The object says another address from now on.
    async fn moves(&mut self) {
        self.at = 1 - self.at;
        self.object.resume(self.places[self.at].ip()).await;
    }

    /// The gateway hears of it. Until then the old address answers, and nobody else ever does.
    async fn is_heard(&self) {
        self.gateway.follows(&self.object).await;
        self.is_served().await;
    }

    /// A line is held back, and passes in the end.
    async fn is_late(&self) {
        self.gateway.until("a line is held back", async || self.wire.is_spent().then_some(())).await;
        self.wire.clear();
    }

    async fn is_served(&self) {
        let reply = self.gateway.send(self.request()).await;
        assert_eq!(reply.sandbox(), self.places[self.at].name());
    }

    /// Whatever kind of request carries the watch now.
    fn once(&self, fault: Fault) {
        let ask = if self.wire.running(Ask::Watch) > 0 { Ask::Watch } else { Ask::StreamingList };
        self.wire.once(ask, fault);
    }

    fn always(&self, fault: Fault) {
        for ask in [Ask::StreamingList, Ask::Watch, Ask::List] {
            self.wire.always(ask, fault);
        }
    }
}

#[tokio::test]
async fn a_watch_that_is_cut_garbled_late_or_dribbled_loses_nothing_and_needs_no_new_list() {
    let mut mover = Mover::start().await;
    let rounds = [
        Fault::Cut,
        Fault::CutMidLine,
        Fault::Garble,
        Fault::Stall,
        Fault::Dribble,
        Fault::Cut,
        Fault::CutMidLine,
        Fault::Garble,
    ];
    for fault in rounds {
        mover.once(fault);
        mover.moves().await;
        if fault == Fault::Stall {
            mover.is_late().await;
        }
        mover.is_heard().await;
        assert!(mover.wire.is_spent(), "{fault:?} did not act");
        mover.gateway.scope_where(0, "the watch runs again", |scope| scope["state"] == "watching").await;
    }
    let scope = mover.gateway.scope(0).await;
    assert_eq!((&scope["lists"], &scope["error"]), (&json!(1), &json!(null)), "{scope}");
    assert_eq!(mover.wire.count(Ask::StreamingList), 1);
    assert!(mover.wire.count(Ask::Watch) >= 6, "{:?}", mover.wire.seen());
}

#[tokio::test]
async fn a_list_that_breaks_off_deletes_nothing_and_changes_made_meanwhile_are_found_by_the_next() {
    let mut mover = Mover::start().await;
    let gone = kruise(&mover.api, &mover.namespace, "gone").running(mover.places[0].ip()).create().await;
    mover.gateway.follows(&gone).await;
    // No watch, and no list, until the wire is whole again.
    mover.always(Fault::Answer(503));
    mover.wire.cut_running();
    mover.gateway.scope_where(0, "the watch is down", |scope| scope["state"] == "backing-off").await;
    gone.delete().await;
    let new = kruise(&mover.api, &mover.namespace, "new").running(mover.places[1].ip()).create().await;
    let was = mover.at;
    mover.moves().await;
    for _ in 0..5 {
        let reply = mover.gateway.send(mover.request()).await;
        assert_eq!(reply.sandbox(), mover.places[was].name(), "the last table serves");
    }
    // The version that was known is too old, so there must be a list; the first two break off.
    mover.wire.clear();
    mover.wire.once(Ask::Watch, Fault::ErrorEvent(410));
    mover.wire.once(Ask::StreamingList, Fault::CutMidLine);
    mover.wire.once(Ask::StreamingList, Fault::Garble);
    mover.gateway.follows(&new).await;
    mover.is_heard().await;
    refused(&mover.gateway, || ask(Kind::OpenKruise, &mover.namespace, "gone"), NOT_FOUND).await;
    assert!(mover.wire.is_spent());
    let scope = mover.gateway.scope_where(0, "all is well", |scope| scope["state"] == "watching").await;
    assert_eq!((&scope["lists"], &scope["objects"]), (&json!(2), &json!(2)), "{scope}");
}

#[tokio::test]
async fn a_watch_that_says_nothing_any_more_leaves_the_last_table_and_its_age_is_visible() {
    let mut mover = Mover::start().await;
    mover.always(Fault::Stall);
    let was = mover.at;
    mover.moves().await;
    mover
        .gateway
        .until("the age of the last contact grows", async || {
            let age = mover.gateway.stat("sandgate.kubernetes_last_contact_age_seconds").await?;
            (age >= 2).then_some(())
        })
        .await;
    let reply = mover.gateway.send(mover.request()).await;
    assert_eq!(reply.sandbox(), mover.places[was].name());
    mover.wire.clear();
    mover.is_heard().await;

    // And one that is cut while it is silent.
    mover.always(Fault::Stall);
    mover.moves().await;
    mover.wire.cut_running();
    mover.wire.clear();
    mover.is_heard().await;
    assert_eq!(mover.gateway.scope(0).await["lists"], 1);
}

#[tokio::test]
async fn refusals_of_the_api_server_are_waited_out_and_told() {
    let mut mover = Mover::start().await;
    for code in [500, 503, 429, 401, 403] {
        mover.always(Fault::Answer(code));
        mover.wire.cut_running();
        let what = format!("{code} is told");
        let told = |scope: &Value| {
            let error = scope["error"].as_str().unwrap_or_default();
            scope["state"] == "backing-off" && error.contains(&format!("{code} "))
        };
        mover.gateway.scope_where(0, &what, told).await;
        assert_eq!(mover.gateway.stat("sandgate.ready").await, Some(1), "what was listed once stays ready");
        mover.is_served().await;
        mover.moves().await;
        mover.wire.clear();
        mover.is_heard().await;
    }
    mover.gateway.stat_is("sandgate.kubernetes_up", 1).await;
    assert_eq!(mover.gateway.readiness().await, "LIVE");
    served(&mover.gateway, || mover.request(), &mover.places[mover.at]).await;
}
