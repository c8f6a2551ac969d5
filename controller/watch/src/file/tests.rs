mod loading;
mod parse;
mod reload;
mod schema;
mod trail;
