//! Negative controls of `atomseq_threads::runtime`: see `tests`.
