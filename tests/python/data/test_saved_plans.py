"""Datasets that an earlier version pickled still load: the modules that defined their parts may have moved since."""

from __future__ import annotations

import base64
import pickle
import re
import sys
import zlib

import pytest
import rtrain.data as data
from rtrain import _public_names

# A compressed pickle of version 0.1.0 with plans over six rows, and with the classes themselves.
KEPT = """
eJy9WG9sFMcV3zvfPxsTIHdAUINrEIazFM4GDAGLIMoRmvjglNo0oRC62rudu7m7vd3N/sE+sBVXAoOr+dCEoW6TVKJIkLQkKv3QyFKkKo1aNUqQcocuAqlCbdMqysd+iK
pUldq+mdvb2zM2pWoU67w7//a9mTfv/d5vZjpwKbxG4H8nafzA0dWCMB289PTqRtMUjZNw3tBsHcmUhPVS3rYKCiXdBjI15RQSVamM6EVKooZlSAU1IUuWNHwQHiay6Dk6
Svu/R6coCYqqJiNKHvYMS4hFraCalESSWlm3LdBwsTE8TiJZXFBkA6mUrGr7RFckaAsdkXTdMx6vxKtIYBRJbhMJmZptZFH7zBJiszXytHoElTWj0tIZ4Gshy3OGVhYLFi
qb8V39lAQMbdykqRAJICmL6Ygg+AQSFrlRTJomwYyiZUsLl+Y0Bg/wN9eR5sbMaopdhlWzii9PyTK9IhmgIqEUMpQ8JIJhLc1AIjRKbHJxnCAPWRUdiTnNECWlIJnM3sGC
au0a4hZOhVJCim1eGoZ26hUxY+dyyIBRPxwU2v98D1jnctFJmm7sIfFNUDwYx9uXULt7SUV+593hvAPOO7iUospXpej0V6PIJiHNKOQL4LQCxRvBjZaPFyys2Zao2opiwv
4exvvxMbz1JWrP0IydMTPnKOnQwLfIyjaX4k3hpOM/ruv3khWyoemi41jx0+CzoSyW1Dw4c6xNguzEJYmIB+ETTwSRQF5TET1J8THJzJCgZJagk1ftDC67qlZBSEKUuMoq
/RS/gA0QOMo7WgLDhtMwRfFh4hunppnBFZB4uF3iWhMpKGu5EvOP9U481jvuyO0Ux3i3R3BoXFItPrk43gqmO4sagps1O3Oekq4SQrop8tC9QLpsVUZZRTLgs1mI3axmqx
YLQYi3HJRl0dJE9gVN28z6AVMqANyt4jGeqcTz/QnTLscnwLIQvxyrKFmbVTRb1gvZkoISnjITWpZKEK+2mrUKmsqD+BWyHOKyoFgFVWTRzGIYcE9GR1mFeUo85WPul/Kn
IiNR8LcDo+BylzrmhEmh6HqhucLqcCtCQbgGY667UTwGYy/7hUX+rLCnHGmVLwfvHSsIeWG244pvNnDF1y6/vSb7roGu666+y6HFZF2D/+tubcpnrWj1Fd2ZWNFW66Rvtm
PWfw3Wed1d6+WuxWTL/rMw04MLdNxvzmMCIHbY2VeKf9oyeoAbPblmDlY/KZwMTfkmfbKQ87/kJ2H4inRKZhapckHNw271E39ikOLeGUpGBsY1ozQwbg0oUgUZ5kDiFFJP
DQCaD+gVCHR1R2LbtgET8slWXcqWpDwyBxpBOcDCcUB0smtCr4Db7lUKpsVcbB8le7/Z6DnIY1fK5w2Ul8DzE3shp0iKuS/h+GKrwfN56kayd1qojlWcn6JXv/2d6olc9W
jebaRJgfb3W+B858FFN+ItkDV5uEEIMEnwkgusFmE5sYQqAEBBnq0gDJsprovnS6e1qzVPiBVTMywR7AwSguNYY7ERtKQMvGco/pknluIPulSaejP58hfTwp3oI3T4b4Jv
+Ya7ax/90ehLFVqpruy9E1s3d/jlw1djV+XXy1fK1aGDN2R4zD8Lj9rmJ+ubn6xtOFTfcOj9zlpstB4bvR07dit2rBY7Xo8dv/Dk3ei6enTT1eM3gjes+edrfSP1vpHbfa
O3+kYdg1kT8KyNVerw7Dtd7ztdi56pR89Uu89Q/Bbpbk4bQh7sFGiYK6QiJAPsnKfczizrLxNFxxNEEfK/B6EZMHNGxTraodvlYDAiV1D4iC/T9ex0GjBqZQO5UFm3KmIW
KQpD3VGKP2o+zlO2Chj5sAtvImQU02IbfpHij6c4rH/g2dtuUXzBlpTmsh58q8kKUZRUVbMaJoWPmeh3mJcayLINleItNoCtWBqXUU6yFYuNSTOFbfUuUSxrss1thj8E+B
dlLct7YCcAuE3b4F2vwEi+fGfhkKv2kw4AfkYmG/B/nkoMqvGn0Le1VdzPi5B21oqeRCCadqah2ARZTFle0TKwRGclW3Acvw1aO2FcoaxDrDALbuZS5/GHeP4itYESzIwO
QkICL6IjnwSHOyDweMpiqQoydcjhoTjMsyPuwstdShw7R/Ec2djKYr1b9/WWJd3hrvG9ilTOyNI+yLU/xq/FW2joS4UbaJhh+cfysMSiW77gu+DP+WXf2YjlySGTgMftWe
H+6Mzw2IvCoZEdTO/wJX8KGBfLfSdXQ87wzGC2A/LDguzwrDDnA1K+RubyIIEvh41k9KaxUgBs/DoJNsoceTr35pGKJnQDYHbY65At69wPZd2PU68lB7/4TPhMAKTt1dlv
9Lmr69+YmF/9bndtw5H6hiNOs+fHsSIjWVnMGH1Z4vDapAozDZiASb4NJE5Ts9CNN52n+J1z7Yi55QFnTVOvJncDYAK40ScWzOTjE5lqFleLau2EVj+hQUutV6/DM6rXo3
q1m021uApsX3wYHvg9B8Pw7wErPloMFm4X+3zszLgAAvAfHny6+K4T5PiPEN34T2n85zT+BKLhL2n8V/wpCTuhTRvBh0skcqjFsxzXnyOxRd2c+HMAGu2eHkx1JLfPAZnx
OtkkUIt1S7hs3lfwcbfdiPdDyHcocEgFlwvyLWWl6IBV1h1I3soAhaf2SHMa3mIqklw3Lcznfme+v7P6raM3h3/z4m9frB56rvrEsWk4LrzV30wa+P00WBSwvwzozcDqZn
EYZgSonXYsn/RYvqUATO+pgG2bFi1+g20pM2oafw4Q9vcp2sQaycibwHBCpXFeApbcWZZkJLJzC+2fAuckHZDcKOnN7dq9Y3DP4O7sLrRz6HE0JA3lcttz8p490s49u9HQ
NsrYdBtcgic72hj2/RNvgp3ddJEWu9hsPuQvF/Xwv74f/PWhEBXwvx2sY3wCcHBprOOMgwH1PYDW4NTJO5f8Cwi1f7JBmxcehfmfF9qKLtzA6MBio2f991DiRel1OyDO+t
70/+9EehFaG2CLh83irIuzj3MNXkcCFngheL+ehXTMuwvAZLOQl/Av8a9IBE4/ql3WGVFjQPP/EwvnoMkdv4VZ6517oQSbwr2hf2SjL3ncy+3W31n76A+6oTo3/PLwTzKv
aW+gXyg/V+aH3l1TSzxVTzx1O5G+lUjXEs/UE89Un/9utUes9Yj1HvF2D77Vg2s9xXpPsRYt1aOlaneJ4a6fkf73ZmgrrNr5F/4AG/jml7p+2wuWM02cnF4CJ/+LiZZAR8
NBR85YumTknlRm6EKSMuMGYFFhMfcPsqJ5AdVUwoaZrRD8+qavveqGYATWbEiWZlAcII8svPN7utnpXvzFga6YGA7eC+/HnMbgGH977uDYNSGOkYAhqSWaEuDgoBmKTFM+
EkSMR9ILMKnIxLbHV+1/5/MSNOoawC4MDAEJzTeoVhfno43Tf5pEdEMDlmnyyzqprIFdGCTMADqxe0l26YcRlCwN9GBkZ4o2s0yArPWuz5PAvMuLuJcqLVSKsRuURgRy4L
MzdoImr04HLr3ixOtJ+HJ1mz1cu5LuNkteXPIgsMw7o3uGuVc94eZl7D1DgF4ArYVNCI1lMSozISgBv/8AYOOIlg==
"""


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the pickle has functions by value: byte code of Python 3.11")
def test_plans_that_version_0_1_0_pickled_still_load():
    plans, classes = pickle.loads(zlib.decompress(base64.b64decode(KEPT)))
    assert pickle.loads(classes) == [data.DataIterator, data.GroupedData, data.Dataset, data.Schema]
    kept = pickle.loads(plans)
    assert kept["grouped"].take_all() == [{"g": 0, "sum(x)": 6}, {"g": 1, "sum(x)": 9}]
    assert kept["groups"].take_all() == [{"rows": 3}, {"rows": 3}]
    assert [row["x"] for row in kept["sorted"].take_all()] == [5, 4, 3, 2, 1, 0]
    assert kept["sorted"].columns() == ["g", "x", "w"]
    assert type(kept["iterator"]) is data.DataIterator and kept["iterator"].materialize().count() == 6
    assert type(kept["by"]) is data.GroupedData and kept["by"].count().take_all() == [
        {"g": 0, "count()": 3},
        {"g": 1, "count()": 3},
    ]


def test_plans_name_only_modules_that_nodes_with_version_0_1_0_have():
    plan = data.range(6).add_column("x", len).rename_columns({"x": "y"}).drop_columns("y").select_columns(["id"])
    content = _public_names.dumps([plan, plan.groupby("id").count(), plan.sort("id"), plan.iterator()])
    modules = {name.rpartition(".")[2] for name in re.findall(r"rtrain\.data\._\w+", content.decode("latin-1"))}
    assert modules <= {"_block", "_dataset", "_grouped", "_joins", "_ops", "_plan", "_share", "_source"}
