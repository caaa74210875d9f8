// What other CPUs may do: look at the committed word, or close the gate.

impl<const N: usize> Pages<N> {
    /// How many free pages a CPU holds; already history when it returns.
    pub fn free_on(&self, cpu: usize) -> usize {
        self.area.peek(cpu, 0) >> 16
    }

    /// Takes every free page out of a CPU's list.
    pub fn reclaim(&self, cpu: usize, mut with: impl FnMut(Page<N>)) {
        // SAFETY: it touches the slot's word alone. The gate is held up to the semicolon.
        let head = unsafe { take_all::gated(&self.area.close_gate(cpu)) };
        let mut page = head & PAGE;
        while page != 0 {
            // Relaxed: closing the gate ordered this after all that was done under it.
            let next = self.links[page].load(Ordering::Relaxed);
            with(Page(page));
            page = next;
        }
    }
}
