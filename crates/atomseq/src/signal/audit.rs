//! What others have done to handlers since.

/// One handler that is not as it has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Finding {
    /// The signal.
    pub signal: i32,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// A handler of someone else's, whose `sa_mask` lets managed signals in: one that arrives while
    /// it runs over a half-done sequence does not know of that. Repairable.
    Uncovered,
    /// A handler of someone else's, of a fault or of `SIGABRT`, which would run in the middle of
    /// deliveries: that of a fault in a rollforward would see a program counter in the clone, and
    /// each could jump away. Repairable.
    Unadopted,
    /// Atomseq's handler is installed, but with other flags than it needs, or with a mask that
    /// lacks managed signals or holds those of faults: a fault of the handler would kill.
    /// Repairable.
    Altered,
    /// Atomseq's own entry was put back by other code after [`uninstall`](super::uninstall), or
    /// after a handler of [one signal](super::Options::once) was used up: it passes signals on to
    /// what should be there. Repairable.
    PutBack,
    /// A managed signal goes to someone else, who may or may not call atomseq's handler. For the
    /// program to resolve.
    Displaced,
    /// The kernel refuses to tell what it does on the signal, as in a sandbox that forbids
    /// `rt_sigaction`: nothing is known about its handler. For the program to resolve.
    Unknown,
}

/// The outcome of [`audit`](super::audit) or [`repair`](super::repair).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    findings: [Option<Finding>; 64],
    count: usize,
    pub(super) unprotected: usize,
}

impl Audit {
    pub(super) const CLEAN: Audit = Audit {
        findings: [None; 64],
        count: 0,
        unprotected: 0,
    };

    #[allow(dead_code, reason = "portable builds find nothing")]
    pub(super) fn add(&mut self, signal: i32, fault: Fault) {
        if let Some(place) = self.findings.get_mut(self.count) {
            *place = Some(Finding { signal, fault });
            self.count += 1;
        }
    }

    /// Whether nothing was found: sequences and masks are what they promise.
    pub fn is_clean(&self) -> bool {
        self.count == 0 && self.unprotected == 0
    }

    /// How many copies of sequences are not protected: what their notes name is no sequence, so the
    /// object that holds them was changed [after it was
    /// linked](crate::docs::limitations#after-the-linker). For the program to resolve.
    pub fn unprotected(&self) -> usize {
        self.unprotected
    }

    /// What was found, by signal.
    pub fn findings(&self) -> impl Iterator<Item = Finding> + '_ {
        self.findings.iter().flatten().copied()
    }
}

impl std::fmt::Display for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_clean() {
            return f.write_str("every handler is as it has to be");
        }
        for (index, finding) in self.findings().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            let text = match finding.fault {
                Fault::Uncovered => {
                    "has a handler that managed signals can interrupt: call repair()"
                }
                Fault::Unadopted => {
                    "has a handler that would run in the middle of deliveries: call repair()"
                }
                Fault::Altered => "is installed with another mask or other flags: call repair()",
                Fault::PutBack => {
                    "has atomseq's entry without a handler, which other code has put back: call repair()"
                }
                Fault::Displaced => {
                    "is handled by someone else now: remove that handler, or install again"
                }
                Fault::Unknown => "has an unknown handler: let the sandbox allow rt_sigaction",
            };
            write!(f, "{separator}signal {} {text}", finding.signal)?;
        }
        if self.unprotected > 0 {
            let separator = if self.count == 0 { "" } else { "; " };
            write!(
                f,
                "{separator}{} sequences are not where their objects say: build these objects anew, and change \
                 nothing in them after linking",
                self.unprotected
            )?;
        }
        Ok(())
    }
}
