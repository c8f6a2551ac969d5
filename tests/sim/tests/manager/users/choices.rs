//! What users do next, at random.

use std::time::Duration;

use sandgate_manager::NewSandbox;
use sandgate_sim::{Random, World};

use super::{Act, Order, Users, What, all};
use crate::process::Manager;

/// The timeout of the orders that outlast a run's faults, in seconds.
const DAY: u64 = 24 * 3600;

impl Users {
    /// One thing that one user does.
    pub(crate) fn step(&mut self, world: &mut World<Manager>) {
        let slot = world.random.below(world.copies());
        let weights =
            [(30, 0), (15, 1), (15, 2), (4, 3), (10, 4), (12, 5), (12, 6), (8, 7), (10, 8), (6, 9), (4, 10)];
        match world.random.weighted(&weights) {
            Some(0) => {
                let order = self.order(&mut world.random);
                self.create(world, slot, order, "creates");
            }
            Some(1) => {
                if let Some(order) = self.to_be_repeated(&mut world.random) {
                    self.create(world, slot, order, "creates again");
                }
            }
            Some(9) => {
                let user = world.random.below(self.callers.len());
                self.send(world, slot, user, What::List, all(), "lists");
            }
            Some(10) => self.give_up(world),
            Some(choice) => {
                let Some(id) = self.some_id(&mut world.random) else { return };
                self.about(world, slot, choice, &id);
            }
            None => {}
        }
    }

    /// One thing that is done to a sandbox.
    fn about(&mut self, world: &mut World<Manager>, slot: usize, choice: i32, id: &str) {
        let seconds = 30 + world.random.next() % 300;
        let act = match choice {
            2 => Act::Get,
            3 => Act::Peek,
            4 => Act::Connect(seconds),
            5 => Act::Pause,
            6 => Act::Resume(seconds),
            7 => Act::SetTimeout(seconds),
            _ => Act::Kill,
        };
        self.ask(world, slot, act, id);
    }

    /// What is asked for next.
    fn order(&mut self, random: &mut Random) -> usize {
        let number = self.orders.len();
        let seconds = if random.chance(250) { DAY } else { 30 + random.next() % 300 };
        let mut wanted = NewSandbox {
            template: if random.chance(850) { "base" } else { "rare" }.to_owned(),
            timeout: Some(Duration::from_secs(seconds)),
            auto_pause: random.chance(200),
            ..NewSandbox::default()
        };
        wanted.idempotency_key = random.chance(500).then(|| format!("key-{number}"));
        wanted.extensions.only_from_stock = random.chance(300) && wanted.template == "base";
        if random.chance(300) {
            wanted.env_vars.insert("A".to_owned(), "b".to_owned());
        }
        self.push(random.below(self.callers.len()), wanted)
    }

    /// An order that may be sent once more: its user does not know how it ended, or has no patience.
    fn to_be_repeated(&self, random: &mut Random) -> Option<usize> {
        let repeatable = |order: &Order| {
            order.wanted.idempotency_key.is_some()
                && (order.open > 0 || !order.in_doubt.is_empty() || !order.given_up.is_empty())
        };
        let orders: Vec<usize> =
            (0..self.orders.len()).filter(|number| repeatable(&self.orders[*number])).collect();
        if orders.is_empty() { None } else { Some(*random.pick(&orders)) }
    }

    fn some_id(&self, random: &mut Random) -> Option<String> {
        // Mostly one that lives: what is dead is asked for rarely.
        let ids: Vec<&String> = self
            .owned
            .iter()
            .filter(|(_, owned)| !owned.to_die || random.chance(50))
            .map(|(id, _)| id)
            .collect();
        if ids.is_empty() { None } else { Some((*random.pick(&ids)).clone()) }
    }

    /// A user goes away without waiting for the answer.
    fn give_up(&mut self, world: &mut World<Manager>) {
        let tickets: Vec<u64> = self.sent.keys().copied().collect();
        if !tickets.is_empty() {
            let ticket = *world.random.pick(&tickets);
            self.leave(world, ticket);
        }
    }
}
