"""Which URLs are posted to."""

import pytest

from coplace_client.errors import RejectedError
from services.webhooks.addresses import AddressRules, parse_address

_NOT_PUBLIC = (
    *("127.0.0.1", "127.255.255.254", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1"),
    *("169.254.169.254", "100.64.0.1", "198.18.0.1", "192.0.2.1", "224.0.0.1", "255.255.255.255"),
    *("240.0.0.1", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12:3456::1", "ff02::1"),
    *("fec0::1", "feff::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1"),
    *("2002:7f00:1::", "2002:a00:1::1", "2001:db8::1", "2001:0:53aa:64c:0:fbff:80ff:fffe"),
)


@pytest.mark.parametrize("text", _NOT_PUBLIC)
def test_what_is_not_public_is_not_connected_to(text: str) -> None:
    rules = AddressRules()
    assert "COPLACE_WEBHOOKS_ALLOWED" in rules.problem("example.org", parse_address(text))
    if "%" not in text:
        host = f"[{text}]" if ":" in text else text
        with pytest.raises(RejectedError, match="no public address"):
            rules.parse(f"https://{host}/hook")


@pytest.mark.parametrize("text", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822"])
def test_what_is_public_is_connected_to(text: str) -> None:
    assert AddressRules().problem("example.org", parse_address(text)) == ""


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "1 to 2048"),
        ("https://" + "a" * 2_050, "1 to 2048"),
        ("https://exämple.org/", "ASCII"),
        ("https://example.org/\n", "printable"),
        ("http://example.org/", "must begin with https://"),
        ("ftp://example.org/", "must begin with https://"),
        ("/hook", "must begin with https://"),
        ("https:///hook", "must begin with https://"),
        ("https://example.org:0/", "must begin with https://"),
        ("https://ada@example.org/", "no user"),
        ("https://ada:secret@example.org/", "no user"),
        ("https://:secret@example.org/", "no user"),
        ("https://example.org/#part", "no fragment"),
        ("https://example.org:99999/", "is not a URL"),
        ("https://[::1/", "is not a URL"),
    ],
)
def test_a_url_that_is_no_receiver_is_refused_with_why(url: str, problem: str) -> None:
    with pytest.raises(RejectedError, match=problem) as error:
        AddressRules().parse(url)
    assert error.value.field == "url"


def test_an_operator_lists_hosts_and_networks() -> None:
    rules = AddressRules(["hooks.internal", "10.0.0.0/8", "::1"], with_http=True)
    assert rules.parse("http://10.1.2.3:8080/hook").port == 8080
    assert rules.parse("http://[::1]/").host == "::1"
    assert rules.problem("HOOKS.internal.", parse_address("192.168.0.1")) == ""
    assert rules.problem("example.org", parse_address("10.9.9.9")) == ""
    assert rules.problem("example.org", parse_address("192.168.0.1"))
    assert rules.problem("hooks.internal.example.org", parse_address("192.168.0.1"))


@pytest.mark.parametrize("text", ["10.0.0.0/33", "a b", "", "https://example.org"])
def test_what_is_neither_host_nor_network_is_refused(text: str) -> None:
    with pytest.raises(RejectedError, match="names of hosts and networks"):
        AddressRules([text])
