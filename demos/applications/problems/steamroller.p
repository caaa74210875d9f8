% Schubert's steamroller: wolves, foxes, birds, caterpillars and snails are animals, and there are
% some of each. Grains are plants, and there are some. Each animal eats all plants, or all animals
% that are much smaller than itself and eat some plants. Caterpillars and snails are much smaller
% than birds, these than foxes, and these than wolves. Wolves eat neither foxes nor grains. Birds
% eat caterpillars, but not snails. Caterpillars and snails eat some plants. Then there is an animal
% that eats an animal that eats grain.
cnf(wolves_are_animals, axiom, ( animal(X) | ~ wolf(X) )).
cnf(foxes_are_animals, axiom, ( animal(X) | ~ fox(X) )).
cnf(birds_are_animals, axiom, ( animal(X) | ~ bird(X) )).
cnf(caterpillars_are_animals, axiom, ( animal(X) | ~ caterpillar(X) )).
cnf(snails_are_animals, axiom, ( animal(X) | ~ snail(X) )).
cnf(a_wolf, axiom, wolf(a_wolf)).
cnf(a_fox, axiom, fox(a_fox)).
cnf(a_bird, axiom, bird(a_bird)).
cnf(a_caterpillar, axiom, caterpillar(a_caterpillar)).
cnf(a_snail, axiom, snail(a_snail)).
cnf(a_grain, axiom, grain(a_grain)).
cnf(grains_are_plants, axiom, ( plant(X) | ~ grain(X) )).
cnf(eating_habits, axiom,
    ( eats(Animal,Plant) | eats(Animal,Smaller)
    | ~ animal(Animal) | ~ plant(Plant) | ~ animal(Smaller) | ~ plant(Other)
    | ~ much_smaller(Smaller,Animal) | ~ eats(Smaller,Other) )).
cnf(caterpillars_below_birds, axiom, ( much_smaller(X,Y) | ~ caterpillar(X) | ~ bird(Y) )).
cnf(snails_below_birds, axiom, ( much_smaller(X,Y) | ~ snail(X) | ~ bird(Y) )).
cnf(birds_below_foxes, axiom, ( much_smaller(X,Y) | ~ bird(X) | ~ fox(Y) )).
cnf(foxes_below_wolves, axiom, ( much_smaller(X,Y) | ~ fox(X) | ~ wolf(Y) )).
cnf(wolves_eat_no_foxes, axiom, ( ~ wolf(X) | ~ fox(Y) | ~ eats(X,Y) )).
cnf(wolves_eat_no_grains, axiom, ( ~ wolf(X) | ~ grain(Y) | ~ eats(X,Y) )).
cnf(birds_eat_caterpillars, axiom, ( eats(X,Y) | ~ bird(X) | ~ caterpillar(Y) )).
cnf(birds_eat_no_snails, axiom, ( ~ bird(X) | ~ snail(Y) | ~ eats(X,Y) )).
cnf(food_of_caterpillars, axiom, ( plant(food_of(X)) | ~ caterpillar(X) )).
cnf(caterpillars_eat_it, axiom, ( eats(X,food_of(X)) | ~ caterpillar(X) )).
cnf(food_of_snails, axiom, ( plant(food_of2(X)) | ~ snail(X) )).
cnf(snails_eat_it, axiom, ( eats(X,food_of2(X)) | ~ snail(X) )).
cnf(no_animal_eats_an_animal_that_eats_grain, negated_conjecture,
    ( ~ animal(X) | ~ animal(Y) | ~ grain(Z) | ~ eats(X,Y) | ~ eats(Y,Z) )).
