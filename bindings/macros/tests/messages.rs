//! What the compiler says about functions and error types that the macros refuse. `TRYBUILD=overwrite` writes the
//! expected messages anew.

#[test]
fn mistakes_are_explained_at_their_place() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
