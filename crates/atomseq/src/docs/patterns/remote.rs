// What other CPUs may do: look at the committed word, or close the gate.

impl<const N: usize> Pages<N> {
    /// Returns how many free pages a CPU holds. Other threads may change that at any time.
    pub fn free_on(&self, cpu: usize) -> usize {
        self.area.peek(cpu, HEAD) >> 16
    }

    /// Removes every free page from a CPU's list, and passes each to `with`.
    pub fn reclaim(&self, cpu: usize, mut with: impl FnMut(Page<N>)) {
        // The guard lives until the end of this statement.
        let head = take_all::gated(&self.area.close_gate(cpu));
        let mut page = head & PAGE;
        while page != 0 {
            // Relaxed: closing the gate ordered this load after all sequences on that CPU.
            let next = self.links[page].load(Ordering::Relaxed);
            with(Page(page));
            page = next;
        }
    }
}
