import numpy as np
import pytest

from bhn_tf.flows import permutations

SIZES = [2, 3, 4, 5, 7, 64]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", SIZES)
def test_each_is_a_permutation_and_never_the_identity(size, seed):
    result = permutations(size, num_layers=9, num_untransformed=size // 2, seed=seed)
    assert len(result) == 8
    for permutation in result:
        np.testing.assert_array_equal(np.sort(permutation), np.arange(size))
        assert not np.array_equal(permutation, np.arange(size))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("untransformed", [lambda size: size // 2, lambda size: 1])
@pytest.mark.parametrize("size", SIZES)
def test_two_layers_transform_every_entry(size, untransformed, seed):
    num_untransformed = untransformed(size)
    (between,) = permutations(size, 2, num_untransformed, seed)
    by_first_layer = set(range(num_untransformed, size))
    by_second_layer = set(between[num_untransformed:].tolist())
    assert by_first_layer | by_second_layer == set(range(size))


def test_a_permutation_depends_on_its_arguments_alone():
    # Fixed numbers: no process or version may give trained weights another order.
    expected = [
        [6, 4, 3, 2, 1, 0, 5],
        [2, 3, 4, 1, 6, 0, 5],
        [6, 3, 0, 2, 1, 4, 5],
    ]
    result = permutations(event_size=7, num_layers=4, num_untransformed=3, seed=1)
    assert [permutation.tolist() for permutation in result] == expected


def test_seeds_give_different_permutations():
    one, other = (permutations(64, 3, 32, seed) for seed in (0, 1))
    for permutation, another in zip(one, other, strict=True):
        assert not np.array_equal(permutation, another)


@pytest.mark.parametrize("num_layers", [0, 1])
def test_fewer_than_two_layers_have_nothing_between_them(num_layers):
    assert permutations(4, num_layers, 2, seed=0) == []
