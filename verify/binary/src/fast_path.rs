//! The path of an undisturbed operation: from its entry through a window, or through one atomic
//! instruction, to its return, without a call.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use iced_x86::{FlowControl, Instruction};

use crate::descriptor::Descriptor;
use crate::executable::Executable;

/// Returns the instructions on the shortest such path through one of the windows, including the
/// commit; `None` if there is none.
pub fn through(
    executable: &Executable,
    function: Range<u64>,
    windows: &[Descriptor],
) -> Option<Vec<Instruction>> {
    let code = code(executable, function.clone());
    let windows = windows
        .iter()
        .filter(|window| function.contains(&window.start));
    windows
        .filter_map(|window| {
            let before = shortest(&code, function.start, |each| each.next_ip() == window.start)?;
            let inside = executable.instructions(window.start..window.end());
            let after = shortest(&code, window.end(), returns)?;
            Some([before, inside, after].concat())
        })
        .min_by_key(Vec::len)
}

/// Returns the instructions on the shortest path through one of the instructions for which
/// `commits` returns `true`; `None` if there is none.
pub fn through_one(
    executable: &Executable,
    function: Range<u64>,
    commits: impl Fn(&Instruction) -> bool,
) -> Option<Vec<Instruction>> {
    let code = code(executable, function.clone());
    let ways = code
        .values()
        .filter(|each| commits(each))
        .filter_map(|one| {
            let before = shortest(&code, function.start, |each| each.ip() == one.ip())?;
            let after = shortest(&code, one.next_ip(), returns)?;
            Some([before, after].concat())
        });
    ways.min_by_key(Vec::len)
}

fn code(executable: &Executable, function: Range<u64>) -> HashMap<u64, Instruction> {
    executable
        .instructions(function)
        .into_iter()
        .map(|instruction| (instruction.ip(), instruction))
        .collect()
}

fn returns(instruction: &Instruction) -> bool {
    instruction.flow_control() == FlowControl::Return
}

/// Returns the shortest path from an address to an instruction that ends it.
fn shortest(
    code: &HashMap<u64, Instruction>,
    from: u64,
    ends: impl Fn(&Instruction) -> bool,
) -> Option<Vec<Instruction>> {
    let mut came_from: HashMap<u64, Option<u64>> = HashMap::from([(from, None)]);
    let mut next = VecDeque::from([from]);
    while let Some(ip) = next.pop_front() {
        let Some(instruction) = code.get(&ip) else {
            continue;
        };
        if ends(instruction) {
            let mut way = vec![*instruction];
            let mut at = ip;
            while let Some(before) = came_from[&at] {
                way.push(code[&before]);
                at = before;
            }
            way.reverse();
            return Some(way);
        }
        let (falls, jumps) = match instruction.flow_control() {
            FlowControl::Next => (true, false),
            FlowControl::ConditionalBranch => (true, true),
            FlowControl::UnconditionalBranch => (false, true),
            _ => (false, false),
        };
        let successors = [
            falls.then(|| instruction.next_ip()),
            jumps.then(|| instruction.near_branch_target()),
        ];
        for successor in successors.into_iter().flatten() {
            came_from.entry(successor).or_insert_with(|| {
                next.push_back(successor);
                Some(ip)
            });
        }
    }
    None
}
