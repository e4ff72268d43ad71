"""Files that were damaged: a configuration or its error, and never anything else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jdbcstore.config import Configuration, load_file, shown_options, to_toml
from jdbcstore.errors import ConfigurationError
from tests.support.configurations import parts

FRAGMENTS = sorted((Path(__file__).parent / "fragments").glob("*.xml"))
PIECES = st.sampled_from(
    [
        "",
        "<",
        ">",
        '"',
        "&",
        "#",
        "${",
        "}",
        "/",
        "<a>",
        "</a>",
        "-1",
        "nan",
        "é",
        "\0",
        " x",
        "\x7f",
        "&#10;",
        "\u2028",
    ]
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(FRAGMENTS)).read_text()
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 30)))
        text = text[:start] + draw(PIECES) + text[end:]
    return text


def loads_or_tells(path: Path) -> Configuration | None:
    try:
        configuration = load_file(path, {})
    except ConfigurationError:
        return None
    assert [*shown_options(configuration)]
    return configuration


@settings(max_examples=300)
@given(text=damaged())
@pytest.mark.slow
def test_a_damaged_xml_file(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    path, made = folder / "activemq.xml", folder / "jdbcstore.toml"
    path.write_text(text)

    configuration = loads_or_tells(path)

    if configuration is not None:
        made.write_text(to_toml(configuration, str(path)))
        assert parts(load_file(made, {})) == parts(configuration)


@settings(max_examples=200)
@given(text=damaged(), start=st.integers(0, 2000), piece=PIECES)
@pytest.mark.slow
def test_a_damaged_toml_file(
    tmp_path_factory: pytest.TempPathFactory, text: str, start: int, piece: str
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    xml, toml = folder / "activemq.xml", folder / "jdbcstore.toml"
    xml.write_text(text)
    try:
        made = to_toml(load_file(xml, {}), "activemq.xml")
    except ConfigurationError:
        return
    toml.write_text(made[:start] + piece + made[start + 5 :])

    loads_or_tells(toml)


@pytest.mark.parametrize(
    "text",
    [
        '<beans><bean id="a" parent="b"/><bean id="b" parent="a"/><broker/></beans>',
        '<beans><bean id="a"><property name="targetDataSource" ref="a"/></bean><broker><persistenceAdapter>'
        '<jdbcPersistenceAdapter dataSource="#a"/></persistenceAdapter></broker></beans>',
        '<broker><persistenceAdapter><journalPersistenceAdapter id="a" longTermPersistence="#a"/>'
        "</persistenceAdapter></broker>",
    ],
)
def test_a_circle_of_beans(tmp_path: Path, text: str) -> None:
    (tmp_path / "activemq.xml").write_text(text)

    with pytest.raises(ConfigurationError, match="refer to each other in a circle"):
        load_file(tmp_path / "activemq.xml", {})


def test_placeholders_that_grow(tmp_path: Path) -> None:
    lines = [f"a{number}=${{a{number + 1}}}${{a{number + 1}}}" for number in range(100)]
    (tmp_path / "x.properties").write_text("\n".join(lines))
    (tmp_path / "activemq.xml").write_text(
        '<beans><bean class="x.PropertyPlaceholderConfigurer">'
        '<property name="location" value="x.properties"/></bean><broker brokerName="${a0}"/></beans>'
    )

    with pytest.raises(ConfigurationError, match="brokerName: "):
        load_file(tmp_path / "activemq.xml", {})
