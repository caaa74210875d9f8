//! Ranges of the named constants in a sequence, checked while the caller's crate is compiled.

/// An immediate operand: every supported architecture holds sixteen bits.
#[doc(hidden)]
pub const fn immediate(value: usize) -> i64 {
    assert!(
        value <= 65_535,
        "a named constant in a sequence is at most 65,535"
    );
    value as i64
}

/// The offset of an address: a multiple of the access, and small enough for one instruction.
#[doc(hidden)]
pub const fn offset(value: usize, bytes: u32) -> i64 {
    let value = value as isize as i64;
    let bytes = bytes as i64;
    assert!(
        value % bytes == 0,
        "an offset in a sequence is a multiple of what is loaded or stored"
    );
    assert!(
        value >= -256 && value <= 4095 * bytes,
        "an offset in a sequence is at least -256 and at most 4,095 times what is loaded or stored"
    );
    value
}
