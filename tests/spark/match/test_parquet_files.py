"""Which files `match_files` reads: folders, Delta tables, addresses and partitions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from tamis import spark as ts
from tamis.errors import InputFileError, MissingExtraError
from tamis.spark.match import parquet_files
from tamis.spark.match.parquet_files import list_files
from tests.spark.indexes import publish_rules


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "index"
    publish_rules(path, [("low", "x < 10"), ("day", "day = '2026-01-01'")])
    return path


def write(path: Path, *values: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": values, "x": values}), path)


def test_deleted_rows_of_a_delta_table_are_not_matched(spark, index: Path, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    table = tmp_path / "table"
    deltalake.write_deltalake(table, pa.table({"id": [1, 2, 3], "x": [1, 2, 30]}))
    deltalake.DeltaTable(table).delete("id = 1")
    assert len(list(table.glob("*.parquet"))) == 2
    found = ts.match_files(spark, table, index).collect()
    assert [tuple(row) for row in found] == [(2, "low")]


def test_a_delta_table_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "part.parquet", 1)
    (tmp_path / "_delta_log").mkdir()

    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(parquet_files, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r"pip install 'tamis\[delta\]'"):
        list_files(tmp_path)


def test_a_damaged_delta_table(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / f"{0:020d}.json").write_text("{}")
    with pytest.raises(InputFileError, match="Delta table cannot be read"):
        list_files(tmp_path)


def test_an_iceberg_table_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "data/part.parquet", 1)
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata/v1.metadata.json").write_text("{}")
    with pytest.raises(InputFileError, match="an Iceberg table"):
        list_files(tmp_path)


def test_columns_in_the_names_of_folders(spark, index: Path, tmp_path: Path) -> None:
    """Files alone do not hold them: an answer without them would be wrong."""
    write(tmp_path / "hour=1" / "part.parquet", 1)
    assert ts.match_files(spark, tmp_path, index, keys="id").count() == 1
    with pytest.raises(InputFileError, match="'hour' is in the names of folders"):
        ts.match_files(spark, tmp_path, index, keys=["id", "hour"])
    write(tmp_path / "hour=1/day=2026-01-01/part.parquet", 2)
    with pytest.raises(InputFileError, match="'day' is in the names of folders"):
        ts.match_files(spark, tmp_path, index)


def test_addresses_stay_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a/part.parquet", 1)
    write(tmp_path / "a/.hidden/part.parquet", 1)
    write(tmp_path / "a/_temporary/part.parquet", 1)
    expected = [str(tmp_path / "a/part.parquet")]
    assert list_files(f"file://{tmp_path}/a").addresses == expected
    monkeypatch.chdir(tmp_path)
    assert list_files("a").addresses == expected
    assert list_files(Path("a") / "part.parquet").addresses == expected
    with pytest.raises(InputFileError) as caught:
        list_files("nowhere://bucket/x")
    assert "nowhere://bucket/x" in str(caught.value)


@pytest.mark.slow
def test_files_in_a_bucket(spark, index: Path) -> None:
    # Workers of a running session have its environment, so the address holds the credentials.
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        options = f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
        filesystem = pafs.S3FileSystem(
            access_key="test", secret_key="test", endpoint_override=f"127.0.0.1:{port}",
            scheme="http", region="us-east-1", allow_bucket_creation=True,
        )  # fmt: skip
        filesystem.create_dir("events")
        for number, name in enumerate(["a.parquet", "b.parquet", "_ignored.parquet"]):
            table = pa.table({"id": [number], "x": [1]})
            pq.write_table(table, f"events/folder/{name}", filesystem=filesystem)
        found = ts.match_files(spark, f"s3://test:test@events/folder?{options}", index)
        assert sorted(tuple(row) for row in found.collect()) == [(0, "low"), (1, "low")]
    finally:
        server.stop()
