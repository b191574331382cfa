"""Our keys for what partners encrypt, from files that may be replaced while we run."""

from pathlib import Path
from typing import Any

import pytest

from msh.decryption_keys import our_decryption_keys, why_no_decryption_key
from msh.pem import KeyUnusable, SigningKey, decryption_key
from tests.keys import decrypting, new_key

NOW, NEXT, SHORT = new_key("now"), new_key("next"), new_key("short", bits=1024)


@pytest.fixture
def use(settings: Any, tmp_path: Path) -> Any:
    def write(*keys: SigningKey) -> None:
        for name, value in decrypting(tmp_path, keys).items():
            setattr(settings, name, value.split(",") if value else [])

    return write


def numbers() -> list[int]:
    """What tells keys apart."""
    return [one.private.private_numbers().p for one in our_decryption_keys()]


def number_of(key: SigningKey) -> int:
    return decryption_key(key.private).private.private_numbers().p


def test_without_files_nothing_is_decrypted(use: Any) -> None:
    use()
    assert our_decryption_keys() == ()
    assert why_no_decryption_key() == "MSH_DECRYPTION_KEY is not set"


@pytest.mark.requirement("EB-178", "EB-185")
def test_two_keys_overlap_and_replaced_files_are_read_again(
    use: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    use(NOW, NEXT)
    assert numbers() == [number_of(NOW), number_of(NEXT)]
    assert why_no_decryption_key() == ""
    use(NEXT)
    assert numbers() == [number_of(NEXT)]
    (tmp_path / "decrypts-0.key").unlink()
    assert numbers() == [number_of(NEXT)]
    assert "our key for decryption stays" in caplog.text


def test_what_cannot_be_read_is_named_and_never_shown(use: Any, tmp_path: Path) -> None:
    use(SHORT)
    with pytest.raises(KeyUnusable, match=r"decrypts-0\.key: the key is no RSA key of 2048"):
        our_decryption_keys()
    (tmp_path / "decrypts-0.key").write_text("secret")
    assert "no private key in PEM" in why_no_decryption_key()
    assert "secret" not in why_no_decryption_key()
    use(NOW)
    assert "private=" not in repr(our_decryption_keys())
