//! Error types whose kinds are not ones.

use scomp_macros::ErrorKind;

#[derive(ErrorKind)]
enum WithoutKinds {
    NotFound,
}

#[derive(ErrorKind)]
enum WithSpace {
    #[kind("not found")]
    NotFound,
}

#[derive(ErrorKind)]
#[kind("NotFound", status = 404)]
struct WithUnknownOption;

#[derive(ErrorKind)]
enum WithUnnamedData {
    #[kind("NotFound")]
    NotFound(#[data] String),
}

#[derive(ErrorKind)]
enum WithDataOnly {
    #[kind("NotFound")]
    NotFound,
    Other { #[data] id: String },
}

#[derive(ErrorKind)]
#[kind(NotFound)]
struct WithoutQuotes;

#[derive(ErrorKind)]
#[kind("NotFound")]
union NotAnError {
    number: u32,
}

fn main() {}
