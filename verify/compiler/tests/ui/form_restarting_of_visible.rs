//! What stores at will cannot be restarted: there is no such form.

atomseq::sequence! {
    pub unsafe fn both(a: Word, b: Word) {
        store(a, 1);
        store(b, 1);
    }
}

fn main() {
    let mut words = [0usize; 2];
    let [a, b] = [&raw mut words[0] as usize, &raw mut words[1] as usize];
    unsafe { both::restarting(a, b) };
}
