% Łoś's problem: if two relations are transitive, one of them is symmetric, and each pair is in one
% or the other, then one of them contains all pairs.
cnf(p_is_transitive, axiom, ( ~ p(X,Y) | ~ p(Y,Z) | p(X,Z) )).
cnf(q_is_transitive, axiom, ( ~ q(X,Y) | ~ q(Y,Z) | q(X,Z) )).
cnf(q_is_symmetric, axiom, ( ~ q(X,Y) | q(Y,X) )).
cnf(all_pairs, axiom, ( p(X,Y) | q(X,Y) )).
cnf(not_all_in_p, negated_conjecture, ~ p(a,b)).
cnf(not_all_in_q, negated_conjecture, ~ q(c,d)).
