//! Clients over HTTP/2: many requests on one connection, gRPC, and streams that are given up.

use std::sync::Arc;

use http_body_util::BodyExt;

use super::world::World;
use crate::{Client, Request};

/// So many rounds on one connection.
const ROUNDS: u32 = 30;

/// Each round asks, calls gRPC, and leaves a download in its middle.
pub(super) async fn ask(world: Arc<World>) {
    let mut turns = world.turns(2.0);
    let mut client = None;
    let mut round = 0_u32;
    while turns.next().await {
        round += 1;
        if round.is_multiple_of(ROUNDS) {
            client = None;
        }
        if client.is_none() {
            client = Client::http2(world.at.gateway).await.ok();
        }
        let Some(connection) = &mut client else {
            world.did("not connected");
            continue;
        };
        if one_round(&world, connection).await.is_err() {
            world.did("HTTP/2 cut off");
            client = None;
        }
    }
}

async fn one_round(world: &World, client: &mut Client) -> Result<(), hyper::Error> {
    let id = world.any();
    let reply = client.send(world.request(&id, "/").host("soak.test")).await?;
    world.answered(&id, &reply);
    let call = Request::post("/trailers")
        .host("soak.test")
        .header("e2b-sandbox-id", world.any())
        .header("e2b-sandbox-port", world.at.port.to_string())
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    // A refusal is a 200 too, with a status of gRPC's.
    let reply = client.send(call).await?;
    world.did(if reply.status == 200 { "gRPC" } else { "gRPC turned away" });
    let download = world.request(&world.any(), "/download?bytes=1048576").host("soak.test");
    let (_, response) = client.open(download).await?;
    let _first = response.into_body().frame().await;
    world.did("HTTP/2 left reading");
    Ok(())
}
