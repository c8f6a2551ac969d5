mod federation;
mod feeding;
mod properties;
mod ranking;
mod speed;
mod world;
