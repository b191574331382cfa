"""Our keys, from files that may be replaced while we run."""

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from msh.pem import KeyUnusable, SigningKey
from msh.signing_keys import our_key, our_keys, why_no_key, why_unfit
from tests.keys import environment, new_key

NOW_VALID, NEXT, OVER = new_key("now"), new_key("next", 0, 3), new_key("over", -3, -2)
CURVED = new_key("curved", curve=ec.SECP384R1())


@pytest.fixture
def use(settings: Any, tmp_path: Path) -> Any:
    def write(*keys: SigningKey) -> None:
        for name, value in environment(tmp_path, keys).items():
            setattr(settings, name, value.split(",") if value else [])

    return write


def test_without_files_nothing_is_signed(use: Any) -> None:
    use()
    assert our_keys() == ()
    assert why_no_key() == "MSH_SIGNING_KEY and MSH_SIGNING_CERTIFICATE are not set"


@pytest.mark.requirement("EB-178")
def test_two_keys_overlap_and_the_later_one_signs(use: Any) -> None:
    use(NOW_VALID, NEXT)
    assert our_keys() == (NOW_VALID, NEXT)
    assert our_key() == NEXT
    assert why_no_key() == ""


@pytest.mark.requirement("EB-168", "EB-178")
def test_keys_of_both_kinds_stand_beside_each_other(use: Any) -> None:
    """Each kind has its own roll-over."""
    use(NOW_VALID, CURVED, NEXT)
    assert our_key("rsa-sha512") == NEXT
    assert our_key("ecdsa-sha256") == CURVED
    use(OVER, CURVED)
    assert why_no_key("rsa-sha1") == "no certificate of MSH_SIGNING_CERTIFICATE is valid now"
    assert why_unfit("rsa-sha1") == ""
    use(NOW_VALID)
    why = "ecdsa-sha384 needs an EC key, and MSH_SIGNING_KEY names none"
    assert why_no_key("ecdsa-sha384") == why_unfit("ecdsa-sha384") == why
    use(CURVED)
    assert why_unfit("rsa-sha256") == "rsa-sha256 needs an RSA key, and MSH_SIGNING_KEY names none"
    use()
    assert why_unfit("ecdsa-sha384") == ""


@pytest.mark.requirement("EB-168")
@pytest.mark.parametrize(
    "key", [new_key("short", bits=1024), new_key("odd", curve=ec.SECP256K1())], ids=["RSA", "EC"]
)
def test_other_keys_do_not_sign(use: Any, key: SigningKey) -> None:
    use(key)
    text = "the key is no RSA key of 2048 bits or more, and none of P-256, P-384 and P-521"
    assert why_no_key().endswith(f"0.key: {text}")


@pytest.mark.requirement("EB-178")
def test_replaced_files_are_read_again(use: Any) -> None:
    use(NOW_VALID)
    assert our_key() == NOW_VALID
    use(OVER)
    assert why_no_key() == "no certificate of MSH_SIGNING_CERTIFICATE is valid now"
    use(NEXT)
    assert our_key() == NEXT


def test_what_cannot_be_read_is_named_and_never_shown(
    use: Any, settings: Any, tmp_path: Path
) -> None:
    use(NOW_VALID)
    settings.MSH_SIGNING_CERTIFICATE = []
    assert "name as many files each" in why_no_key()
    use(NOW_VALID)
    key = tmp_path / "0.key"
    key.write_bytes(NEXT.private)
    with pytest.raises(KeyUnusable, match=r"0\.key: the key is not that of the certificate$"):
        our_keys()
    key.write_text("secret")
    assert "secret" not in why_no_key()
    key.unlink()
    assert why_no_key() == f"{key}: No such file or directory"
    key.mkdir()
    assert why_no_key() == f"{key}: Is a directory"


@pytest.mark.requirement("EB-178")
def test_a_key_stays_until_its_successor_is_complete(
    use: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    use(NOW_VALID)
    assert our_key() == NOW_VALID
    (tmp_path / "0.key").write_bytes(NEXT.private)
    for _ in range(3):
        assert our_key() == NOW_VALID
    assert len(caplog.records) == 1
    assert "the key is not that of the certificate" in caplog.text
    (tmp_path / "0.key").unlink()
    assert our_key() == NOW_VALID
    use(NEXT)
    assert our_key() == NEXT
