mod demand;
mod ends;
mod order;
mod stress;
mod unanswered;
mod world;
