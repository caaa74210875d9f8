//! Checks of a sequence's named constants, evaluated while the caller's crate is compiled.
//!
//! The compiler applies the same rules to literals itself. An offset is a signed number of a word's
//! width.

use crate::percpu::Area;

/// Converts a constant to an instruction's operand.
pub const fn operand(value: usize) -> i64 {
    value as i64
}

/// The types of named constants. A cast to an integer of the widest type keeps their value.
#[diagnostic::on_unimplemented(
    message = "a named constant in a sequence is an integer, a `bool` or a `char`, and `{Self}` is none of these",
    label = "this is a `{Self}`"
)]
pub trait Integer: Copy {
    /// Whether the type has negative values.
    const IS_SIGNED: bool;
}

macro_rules! integers {
    ($($type:ty: $is_signed:literal),+ $(,)?) => {
        $(impl Integer for $type {
            const IS_SIGNED: bool = $is_signed;
        })+
    };
}

integers! {
    u8: false, u16: false, u32: false, u64: false, u128: false, usize: false,
    i8: true, i16: true, i32: true, i64: true, i128: true, isize: true,
    bool: false, char: false,
}

/// Converts a named constant to a word. `value` is the constant cast to `i128`.
///
/// # Panics
///
/// If it does not fit a word.
#[track_caller]
pub const fn word<T: Integer>(_: T, value: i128) -> usize {
    assert!(
        is_exact::<T>(value, usize::BITS),
        "a named constant in a sequence fits a word of the target"
    );
    value as usize
}

/// Returns whether a constant of this type fits a word of `bits` bits. A large `u128` has become
/// negative by the cast, and is rejected.
const fn is_exact<T: Integer>(value: i128, bits: u32) -> bool {
    match T::IS_SIGNED {
        true => value >= -(1 << (bits - 1)) && value < 1 << (bits - 1),
        false => value >= 0 && value < 1 << bits,
    }
}

/// Selects a constant that the compiler has folded for both word widths.
pub const fn by_width(value: u64, narrow: u32) -> usize {
    match usize::BITS {
        32 => narrow as usize,
        _ => value as usize,
    }
}

/// Returns whether a literal fits a word.
pub const fn fits(value: u64) -> bool {
    value <= usize::MAX as u64
}

/// Converts a named word to an instruction's operand. A word that does not fit one has templates of
/// its own; it becomes 0 here, so that the templates that it does not use can be assembled.
pub const fn immediate_operand(value: usize) -> i64 {
    if immediate(value) { value as i64 } else { 0 }
}

/// Returns whether a constant fits an immediate: sixteen bits on every supported architecture.
pub const fn immediate(value: usize) -> bool {
    value <= 65_535
}

const fn signed(offset: usize) -> i64 {
    offset as isize as i64
}

/// Returns whether an offset is a multiple of the access size.
pub const fn multiple(offset: usize, bytes: u32) -> bool {
    signed(offset) % bytes as i64 == 0
}

/// Returns whether an offset fits a load or store of every architecture.
pub const fn reachable(offset: usize, bytes: u32) -> bool {
    let offset = signed(offset);
    offset >= -256 && offset <= 4095 * bytes as i64
}

/// Returns whether two byte ranges overlap, at offsets from the same address.
pub const fn overlap(a: usize, a_bytes: u64, b: usize, b_bytes: u64) -> bool {
    let (a, b) = (signed(a), signed(b));
    b < a.saturating_add(a_bytes as i64) && a < b.saturating_add(b_bytes as i64)
}

/// Returns whether the first byte range contains the second, at offsets from the same address.
pub const fn covers(a: usize, a_bytes: u64, b: usize, b_bytes: u64) -> bool {
    let (a, b) = (signed(a), signed(b));
    a <= b && b.saturating_add(b_bytes as i64) <= a.saturating_add(a_bytes as i64)
}

/// Returns the size in bytes of a copy of `words` words, capped at 2^40 words so that sums do not
/// overflow.
pub const fn copied(words: usize) -> u64 {
    let words = words as u64;
    8 * if words < 1 << 40 { words } else { 1 << 40 }
}

/// Returns whether an access at an offset from a slot stays within the slot's words. An offset that
/// names `BULK` leads to what follows them, whose size only the area knows.
pub const fn in_slot(offset: usize, bytes: u64, names_bulk: bool) -> bool {
    let (first, end) = (Area::FIRST_WORD as i64, Area::BULK as i64);
    let offset = signed(offset);
    offset >= first && (names_bulk || offset.saturating_add(bytes as i64) <= end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEGATIVE: usize = 0usize.wrapping_sub(8);

    #[test]
    fn offsets_and_immediates_are_bounded() {
        assert!(multiple(NEGATIVE, 8) && !multiple(NEGATIVE + 4, 8) && multiple(NEGATIVE + 4, 4));
        assert!(reachable(0usize.wrapping_sub(256), 8) && !reachable(0usize.wrapping_sub(264), 8));
        assert!(reachable(32_760, 8) && !reachable(32_768, 8) && !reachable(32_760, 4));
        assert!(immediate(65_535) && !immediate(65_536) && !immediate(NEGATIVE));
    }

    #[test]
    fn constants_fit_a_word_of_either_width() {
        for bits in [32, 64] {
            let beyond = 1_i128 << bits;
            assert!(is_exact::<u64>(beyond - 1, bits) && is_exact::<u128>(0, bits));
            assert!(!is_exact::<u64>(beyond, bits) && !is_exact::<u128>(beyond + 5, bits));
            assert!(!is_exact::<u128>(u128::MAX as i128, bits), "it is not -1");
            let half = beyond / 2;
            assert!(is_exact::<i64>(-half, bits) && is_exact::<i128>(half - 1, bits));
            assert!(!is_exact::<i128>(-half - 1, bits) && !is_exact::<i64>(half, bits));
        }
        assert_eq!(
            [word(-8_i32, -8), word(true, 1), word('a', 97)],
            [NEGATIVE, 1, 97]
        );
    }

    #[test]
    fn ranges_overlap_and_cover() {
        assert!(!overlap(0, 8, 8, 8) && !overlap(8, 8, 0, 8) && !overlap(NEGATIVE, 8, 0, 8));
        assert!(overlap(0, 8, 4, 4) && overlap(4, 4, 0, 8) && overlap(NEGATIVE, 16, 0, 8));
        assert!(covers(8, 16, 8, 8) && covers(8, 16, 16, 8) && covers(NEGATIVE, 16, 0, 8));
        assert!(!covers(8, 16, 20, 8) && !covers(8, 16, 0, 8) && !covers(8, 0, 8, 8));
        assert!(covers(8, copied(2), 16, copied(1)) && !overlap(8, copied(2), 24, copied(0)));
        assert!(overlap(0, copied(NEGATIVE), 4096, 8) && !covers(0, 8, 0, copied(NEGATIVE)));
        assert!(in_slot(8, 8, false) && in_slot(120, 8, false) && in_slot(124, 4, false));
        assert!(in_slot(8, copied(15), false) && !in_slot(8, copied(16), false));
        assert!(!in_slot(4, 4, false) && !in_slot(NEGATIVE, 8, false) && !in_slot(128, 4, false));
        assert!(in_slot(128, 8, true) && !in_slot(4, 4, true) && !in_slot(NEGATIVE, 200, true));
    }
}
