"""heddle's model files for peers: layers in order, repeats written out, each with the names of what it reads.

A file that is JSON, which YAML includes, needs no further module; any other needs PyYAML.
"""
import json


def parsed(path):
    with open(path) as file:
        text = file.read()
    try:
        return json.loads(text)
    except ValueError:
        import yaml
        return yaml.safe_load(text)


def flat(entries, before, prefix=""):
    """[{"name", "op", "from", settings}], and the last one's name; `before` is what the first layer reads."""
    layers, above = [], before
    for (name, what), in (entry.items() for entry in entries):
        name = prefix + name
        if "repeat" not in what:
            local = {layer["name"][len(prefix):]: layer["name"] for layer in layers}
            read = what.get("from", above)
            named = [before if n == "above" and prefix else local.get(n, n)
                     for n in (read if isinstance(read, list) else [read])]
            layers.append({**what, "name": name, "from": named})
            above = name
            continue
        for turn in range(what["repeat"]):
            inner, above = flat(what["layers"], above, "%s%d." % (name, turn + 1))
            layers += inner
    return layers, above


def read_model(path):
    """The shape of a sample, [channels, height, width], and the layers."""
    model = parsed(path)
    if "loss" in model:
        raise ValueError("%s has a loss of its own" % path)
    return model["input"], flat(model["layers"], "input")[0]


def classes_of(layers):
    return [layer["out"] for layer in layers if "out" in layer][-1]
