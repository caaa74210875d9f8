% Who killed Aunt Agatha? (Pelletier's problem 55.) Agatha, the butler and Charles live in the
% mansion. The clauses claim that Agatha did not kill herself.
cnf(agatha_lives, axiom, lives(agatha)).
cnf(butler_lives, axiom, lives(butler)).
cnf(charles_lives, axiom, lives(charles)).
cnf(killer_hates, axiom, ( ~ killed(X,Y) | hates(X,Y) )).
cnf(killer_is_no_richer, axiom, ( ~ killed(X,Y) | ~ richer(X,Y) )).
cnf(charles_hates_others, axiom, ( ~ hates(agatha,X) | ~ hates(charles,X) )).
cnf(agatha_hates_herself, axiom, hates(agatha,agatha)).
cnf(agatha_hates_charles, axiom, hates(agatha,charles)).
cnf(butler_hates_the_poorer, axiom, ( ~ lives(X) | richer(X,agatha) | hates(butler,X) )).
cnf(butler_hates_hers, axiom, ( ~ hates(agatha,X) | hates(butler,X) )).
cnf(nobody_hates_all, axiom, ( ~ hates(X,agatha) | ~ hates(X,butler) | ~ hates(X,charles) )).
cnf(one_did_it, axiom, ( killed(agatha,agatha) | killed(butler,agatha) | killed(charles,agatha) )).
cnf(agatha_did_not, negated_conjecture, ~ killed(agatha,agatha)).
