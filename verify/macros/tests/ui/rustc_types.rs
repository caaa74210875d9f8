//! What rustc's types refuse: constants that are no integers, forms that the steps do not allow.

// Neither a fraction nor a sign is cut off.
const HALF: f64 = 7.9;
const MINUS: f32 = -3.0;

atomseq::sequence! {
    pub unsafe fn constant_no_integer(a: Word) -> (Word, Word) {
        commit(a, 1);
        (HALF, MINUS)
    }
}

// Without a slot and `cpu()` there is no form for a CPU, and a call says why.
atomseq::sequence! {
    pub unsafe fn sets(word: Word) {
        commit(word, 1);
    }
}

// Visible stores cannot be restarted.
atomseq::sequence! {
    pub unsafe fn both(a: Word, b: Word) {
        store(a, 1);
        store(b, 1);
    }
}

// Nor is there one for what does not commit.
atomseq::sequence! {
    pub unsafe fn adds(slot: Slot, amount: Word) {
        store(slot + 8, load(slot + 8) + amount);
    }
    unsafe fn nothing() {}
}

// What asks for its CPU is not rolled forward.
atomseq::sequence! {
    pub unsafe fn takes(word: Word, home: Word) -> bool {
        if cpu() != home { return false }
        commit(word, 1);
        true
    }
}

fn main() {
    let mut word = 0usize;
    let _ = unsafe { sets::on_cpu(&raw mut word as usize) };
    let slots = atomseq::percpu::Area::try_new(0).unwrap();
    let _ = unsafe { adds::on_cpu(slots.slots(), 1) };
    let _ = unsafe { nothing::on_cpu() };
    let mut words = [0usize; 2];
    let [a, b] = [&raw mut words[0] as usize, &raw mut words[1] as usize];
    unsafe { both::restarting(a, b) };
    let mut word = 0usize;
    unsafe { takes::rolling(&raw mut word as usize, 0) };
}
