% A group in which each square is the identity is commutative: each element is its own inverse, so
% no axiom mentions inverses. p(X,Y,Z) says that X * Y = Z.
cnf(left_identity, axiom, p(e,X,X)).
cnf(right_identity, axiom, p(X,e,X)).
cnf(associativity_1, axiom, ( ~ p(X,Y,U) | ~ p(Y,Z,V) | ~ p(U,Z,W) | p(X,V,W) )).
cnf(associativity_2, axiom, ( ~ p(X,Y,U) | ~ p(Y,Z,V) | ~ p(X,V,W) | p(U,Z,W) )).
cnf(squares, hypothesis, p(X,X,e)).
cnf(a_times_b, hypothesis, p(a,b,c)).
cnf(b_times_a, negated_conjecture, ~ p(b,a,c)).
