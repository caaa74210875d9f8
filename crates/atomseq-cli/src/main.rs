//! The `atomseq` command.
fn main() {}
