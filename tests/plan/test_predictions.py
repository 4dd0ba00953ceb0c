"""Predictions of a fixed grid of plans do not drift unseen."""

import json

import renew

DRIFT = 1e-3


def test_no_prediction_has_drifted():
    """Each number of the grid, old against new; what is meant to change is written anew."""
    old, new = json.loads(renew.PREDICTIONS.read_text()), renew.predictions()
    told = [f"{plan}: {'gone' if plan in old else 'new'}" for plan in old.keys() ^ new.keys()]
    for plan in old.keys() & new.keys():
        for name, before in old[plan].items():
            after = new[plan][name]
            if abs(after / before - 1) > DRIFT:
                told.append(
                    f"{plan}: {name} {before:.6g} -> {after:.6g}, {after / before - 1:+.1%}"
                )
    lines = "\n".join(sorted(told))
    assert not told, f"{len(told)} drifted; if that is meant: {renew.COMMAND}\n{lines}"
