//! taskyard-testkit: filled in below.
