//! What a sequence asks of its named constants, checked while the caller's crate is compiled.

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

/// Do two ranges of bytes, at offsets from the same address, have no byte in common?
#[doc(hidden)]
pub const fn apart(a: usize, a_bytes: u64, b: usize, b_bytes: u64) -> bool {
    let (a, b) = (a as isize as i64, b as isize as i64);
    a.saturating_add(a_bytes as i64) <= b || b.saturating_add(b_bytes as i64) <= a
}

/// Do these bytes of a slot lie after its gate and before its end?
#[doc(hidden)]
pub const fn in_slot(offset: usize, bytes: u64) -> bool {
    let offset = offset as isize as i64;
    offset >= 8 && offset.saturating_add(bytes as i64) <= 128
}
