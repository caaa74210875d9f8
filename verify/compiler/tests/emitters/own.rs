//! Without assembly, the forms against signal handlers load by plain accesses. The elements of a
//! batch lie in a slice that the caller shares, and an atomic access would ask for the permission
//! to write there, which Miri refuses under Stacked Borrows. The form under a gate, whose words
//! other CPUs read too, loads atomically.

use quote::{quote, ToTokens};
use syn::visit::Visit;

/// The loads of each function: what follows `gated ::`.
#[derive(Default)]
struct Loads(Vec<(String, String)>);

impl<'ast> Visit<'ast> for Loads {
    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        let body = function.block.to_token_stream().to_string();
        let accesses = body.split("gated :: ").skip(1);
        let loads = accesses.filter_map(|rest| rest.split_once(' ').map(|(name, _)| name));
        let loads = loads.filter(|name| name.starts_with("load"));
        let name = function.sig.ident.to_string();
        self.0
            .extend(loads.map(|load| (name.clone(), load.to_string())));
    }
}

#[test]
fn forms_against_handlers_load_without_the_right_to_write() {
    let sequence = quote! {
        unsafe fn both(slot: Slot, half: Word) -> Word {
            let first = load(slot + 8);
            let second = load32(half);
            commit(slot + 8, second);
            first
        }
    };
    let expansion = atomseq_compiler::compile(sequence).expect("a sequence");
    let mut loads = Loads::default();
    loads.visit_file(&syn::parse2(expansion).expect("items"));
    let of = |name: &str| -> Vec<&str> {
        let found = loads.0.iter().filter(|(function, _)| function == name);
        found.map(|(_, load)| load.as_str()).collect()
    };
    for name in ["restarting", "rolling"] {
        assert_eq!(
            of(name),
            ["load_own", "load32_own"],
            "{name}: {:?}",
            loads.0
        );
    }
    // The negative control: the check distinguishes these from other loads.
    assert_eq!(of("gated"), ["load", "load32"], "{:?}", loads.0);
}
