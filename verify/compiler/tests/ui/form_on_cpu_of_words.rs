//! Without a slot and the CPU's number there is nothing for a CPU.

atomseq::sequence! {
    pub unsafe fn sets(word: Word) {
        commit(word, 1);
    }
}

fn main() {
    let mut word = 0usize;
    let _ = unsafe { sets::on_cpu(&raw mut word as usize) };
}
