//! Who gets a place from which reservation: a flow from reservations to the pools that name them.

use std::collections::VecDeque;

/// Pools that together need more than the reservations hold that they name, and no pool that could be left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shortage {
    pub pools: Vec<usize>,
    pub reservations: Vec<usize>,
}

/// Gives the places of reservations to the pools that name them: first to each what it needs, then as much as it could
/// use beyond that, so that few places stay empty. The answer says what each pool gets from each reservation that it
/// names, in the order in which it names them.
///
/// `holds[r]` is what a reservation has, `names[p]` the reservations that a pool names, and `needs[p]` and `uses[p]`
/// what the pool needs and could use.
pub fn share_out(holds: &[u32], names: &[Vec<usize>], needs: &[u32], uses: &[u32]) -> Result<Vec<Vec<u32>>, Shortage> {
    let from = names.iter().map(|named| vec![0; named.len()]).collect();
    let mut places = Places { spare: holds.to_vec(), names, from };
    let mut short = Vec::new();
    for (pool, need) in needs.iter().enumerate() {
        if !places.give(pool, *need) {
            short.push(pool);
        }
    }
    if !short.is_empty() {
        return Err(places.shortage(&short));
    }
    for (pool, (used, need)) in uses.iter().zip(needs).enumerate() {
        places.give(pool, used.saturating_sub(*need));
    }
    Ok(places.from)
}

struct Places<'a> {
    /// What each reservation has left.
    spare: Vec<u32>,
    names: &'a [Vec<usize>],
    from: Vec<Vec<u32>>,
}

/// How a search came to a reservation: through this pool, which names it in this place.
type Step = Option<(usize, usize)>;

impl Places<'_> {
    /// Gives a pool some places, or as many as there are for it, moving others to where they can go. Nobody gets fewer
    /// than before.
    fn give(&mut self, pool: usize, mut wanted: u32) -> bool {
        while wanted > 0 {
            let Some((mut reservation, steps, back)) = self.way(pool) else { return false };
            // Walked twice from the end: how much can move along it, then the move.
            let end = reservation;
            let mut amount = wanted.min(self.spare[end]);
            while let Some((taker, _)) = steps[reservation]
                && let Some((lost, place)) = back[taker]
            {
                amount = amount.min(self.from[taker][place]);
                reservation = lost;
            }
            reservation = end;
            self.spare[end] -= amount;
            while let Some((taker, place)) = steps[reservation] {
                self.from[taker][place] += amount;
                let Some((lost, place)) = back[taker] else { break };
                self.from[taker][place] -= amount;
                reservation = lost;
            }
            wanted -= amount;
        }
        true
    }

    /// The shortest way to a reservation with a place left: from the pool to what it names, to a pool that has places
    /// there, to what that one names. With how it came to each reservation, and which reservation each pool on it
    /// would give up a place in, and where it names that.
    fn way(&self, pool: usize) -> Option<(usize, Vec<Step>, Vec<Step>)> {
        let mut steps: Vec<Step> = vec![None; self.spare.len()];
        let mut back: Vec<Step> = vec![None; self.names.len()];
        let mut queue = VecDeque::from([pool]);
        while let Some(taker) = queue.pop_front() {
            for (place, reservation) in self.names[taker].iter().copied().enumerate() {
                if steps[reservation].is_some() {
                    continue;
                }
                steps[reservation] = Some((taker, place));
                if self.spare[reservation] > 0 {
                    return Some((reservation, steps, back));
                }
                for (other, named) in self.names.iter().enumerate() {
                    let held = |(place, _): &(usize, &usize)| self.from[other][*place] > 0;
                    let place = named.iter().enumerate().filter(|(_, r)| **r == reservation).find(held);
                    if let Some((place, _)) = place.filter(|_| other != pool && back[other].is_none()) {
                        back[other] = Some((reservation, place));
                        queue.push_back(other);
                    }
                }
            }
        }
        None
    }

    /// Whoever has places where a short pool wants some is part of its shortage, and so is everything that he names
    /// himself: he cannot make room by going elsewhere, or he would have.
    fn shortage(&self, short: &[usize]) -> Shortage {
        let mut pools: Vec<bool> = (0..self.names.len()).map(|pool| short.contains(&pool)).collect();
        let mut reservations = vec![false; self.spare.len()];
        let mut queue: VecDeque<usize> = short.iter().copied().collect();
        while let Some(pool) = queue.pop_front() {
            self.names[pool].iter().for_each(|reservation| reservations[*reservation] = true);
            for (other, named) in self.names.iter().enumerate().filter(|(other, _)| !pools[*other]).collect::<Vec<_>>()
            {
                if named.iter().zip(&self.from[other]).any(|(r, held)| reservations[*r] && *held > 0) {
                    pools[other] = true;
                    queue.push_back(other);
                }
            }
        }
        let chosen = |flags: &[bool]| (0..flags.len()).filter(|index| flags[*index]).collect();
        Shortage { pools: chosen(&pools), reservations: chosen(&reservations) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_with_a_choice_leaves_room_for_one_without() {
        let names = [vec![1, 0], vec![1]];
        assert_eq!(share_out(&[10, 5], &names, &[10, 5], &[10, 5]), Ok(vec![vec![0, 10], vec![5]]));
        assert_eq!(share_out(&[10, 5], &names, &[0, 0], &[10, 5]), Ok(vec![vec![0, 10], vec![5]]));
        assert_eq!(share_out(&[], &[vec![]], &[0], &[3]), Ok(vec![vec![]]));
    }

    #[test]
    fn who_has_room_elsewhere_comes_last() {
        let names = [vec![0], vec![0]];
        assert_eq!(share_out(&[4], &names, &[0, 4], &[4, 4]), Ok(vec![vec![0], vec![4]]));
        assert_eq!(share_out(&[6], &names, &[0, 4], &[4, 4]), Ok(vec![vec![2], vec![4]]));
    }

    #[test]
    fn places_move_along_a_chain() {
        // The last can only have the first reservation, and everybody moves up one for it.
        let names = [vec![0, 1], vec![1, 2], vec![2, 3], vec![0]];
        let got = share_out(&[3, 3, 3, 3], &names, &[3, 3, 3, 3], &[3, 3, 3, 3]);
        assert_eq!(got, Ok(vec![vec![0, 3], vec![0, 3], vec![0, 3], vec![3]]));
    }

    #[test]
    fn a_shortage_names_only_those_who_compete() {
        // The third pool shares a reservation with the second, but has a place of its own and leaves that one alone.
        let names = [vec![0], vec![0, 1], vec![1, 2]];
        let found = share_out(&[8, 4, 16], &names, &[8, 8, 4], &[8, 8, 4]);
        assert_eq!(found, Err(Shortage { pools: vec![0, 1], reservations: vec![0, 1] }));
        // Here the third needs it too.
        let found = share_out(&[8, 4, 2], &names, &[8, 2, 6], &[8, 2, 6]);
        assert_eq!(found, Err(Shortage { pools: vec![0, 1, 2], reservations: vec![0, 1, 2] }));
    }

    /// Against Hall's theorem: nobody goes short exactly if no set of pools needs more than its reservations hold.
    #[test]
    fn shares_exist_exactly_where_every_set_of_pools_fits() {
        let mut seed = 7u32;
        let mut next = |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % below
        };
        let mut fitted = 0;
        for _ in 0..2000 {
            let holds: Vec<u32> = (0..3).map(|_| next(6)).collect();
            let names: Vec<Vec<usize>> = (0..4).map(|_| (0..3).filter(|_| next(2) == 0).collect()).collect();
            let needs: Vec<u32> = (0..4).map(|_| next(5)).collect();
            let uses: Vec<u32> = needs.iter().map(|need| need + next(3)).collect();
            let fits = (0u32..16).all(|set| {
                let chosen = || (0..4).filter(|pool| set & (1 << pool) != 0);
                let reach = (0..3).filter(|r| chosen().any(|pool| names[pool].contains(r))).map(|r| holds[r]);
                chosen().map(|pool| needs[pool]).sum::<u32>() <= reach.sum()
            });
            match share_out(&holds, &names, &needs, &uses) {
                Ok(from) => {
                    assert!(fits, "{holds:?} {names:?} {needs:?}");
                    fitted += 1;
                    for (pool, got) in from.iter().map(|from| from.iter().sum::<u32>()).enumerate() {
                        assert!(needs[pool] <= got && got <= uses[pool]);
                    }
                    for (r, holds) in holds.iter().enumerate() {
                        let given = |pool: usize| names[pool].iter().zip(&from[pool]).find(|(name, _)| **name == r);
                        assert!((0..4).filter_map(given).map(|(_, held)| held).sum::<u32>() <= *holds);
                    }
                }
                Err(shortage) => {
                    let held: u32 = shortage.reservations.iter().map(|r| holds[*r]).sum();
                    let needed: u32 = shortage.pools.iter().map(|pool| needs[*pool]).sum();
                    assert!(!fits && held < needed, "{holds:?} {names:?} {needs:?} {shortage:?}");
                }
            }
        }
        assert!((100..1900).contains(&fitted), "{fitted}");
    }
}
