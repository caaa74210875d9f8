//! The findings of an audit: handlers that other code has installed or changed.

/// A signal whose handler does not protect sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Finding {
    /// The signal's number.
    pub signal: i32,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The `sa_mask` of a handler of other code admits managed signals. One that arrives while that
    /// handler runs over a half-done sequence observes the sequence half done. Repairable.
    Uncovered,
    /// A handler of other code for a fault or `SIGABRT` would run in the middle of deliveries. On a
    /// fault in a rollforward it would see a program counter in the clone, and it could jump out of
    /// any delivery. Repairable.
    Unadopted,
    /// Atomseq's handler is installed with other flags than it needs, or with a mask that lacks
    /// managed signals or contains fault signals: a fault of the handler would end the process.
    /// Repairable.
    Altered,
    /// Other code has put atomseq's entry back after [`uninstall`](super::uninstall), or after a
    /// used-up handler for [one signal](super::Options::once) was removed. The entry passes signals
    /// on to what should be there. Repairable.
    PutBack,
    /// A managed signal goes to a handler of other code, which may or may not call atomseq's. The
    /// program must resolve this.
    Displaced,
    /// The kernel does not report the signal's disposition, as in a sandbox that forbids
    /// `rt_sigaction`. Nothing is known about its handler. The program must resolve this.
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

    /// Returns whether nothing was found: sequences and masks keep what they promise.
    pub fn is_clean(&self) -> bool {
        self.count == 0 && self.unprotected == 0
    }

    /// Returns how many copies of sequences are not protected.
    ///
    /// Their notes do not name a sequence, so the object that contains them was changed [after it
    /// was linked](crate::docs::limitations#after-the-linker). The program must resolve this.
    pub fn unprotected(&self) -> usize {
        self.unprotected
    }

    /// Returns the findings, in the order of signals.
    pub fn findings(&self) -> impl Iterator<Item = Finding> + '_ {
        self.findings.iter().flatten().copied()
    }
}

impl std::fmt::Display for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_clean() {
            return f.write_str("every handler protects sequences");
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
                    "has a handler of other code: remove that handler, or install again and chain to it"
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
