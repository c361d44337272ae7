//! What the transform means, tried in the engine: one context runs one eval after the other, as a session does.

mod depth;
mod fresh;
mod harness;
mod persist;
mod places;
mod properties;
mod refusals;
mod typescript;
mod whole;
