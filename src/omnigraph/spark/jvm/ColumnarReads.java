package org.omnigraph.spark;

import java.io.Serializable;
import java.util.Collections;
import java.util.Set;
import org.apache.spark.TaskContext;
import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.api.python.PythonEvalType;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonCustomMetric$;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.execution.python.ArrowPythonRunner$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.immutable.$colon$colon;
import scala.collection.immutable.List;
import scala.collection.immutable.List$;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/**
 * Tasks that a Python function reads, handed on as the columns that the function sends.
 *
 * <p>The function is one for mapInArrow: it gets one value, which says what the task reads, and
 * sends record batches. Spark's own sources in Python copy every batch into rows. This class does
 * not, and that is its only purpose.
 */
public final class ColumnarReads
    implements SupportsRead, ScanBuilder, Scan, Batch, PartitionReaderFactory {
  private final PythonFunction function;
  private final StructType schema;
  private final DataType given;
  private final Option<String> artifacts;
  private final transient Object[] tasks;

  ColumnarReads(
      PythonFunction function,
      StructType schema,
      DataType given,
      Object[] tasks,
      Option<String> artifacts) {
    this.function = function;
    this.schema = schema;
    this.given = given;
    this.tasks = tasks;
    this.artifacts = artifacts;
  }

  /** A frame of the tasks with the numbers from 0; the function gets the number of its task. */
  public static Dataset<Row> frame(
      SparkSession session, PythonFunction function, StructType schema, int count) {
    Object[] tasks = new Object[count];
    for (int number = 0; number < count; number++) {
      tasks[number] = Long.valueOf(number);
    }
    Option<String> none = Option.empty();
    ColumnarReads reads =
        new ColumnarReads(function, schema, DataTypes.LongType, tasks, none);
    return org.apache.spark.sql.classic.Dataset.ofRows(
        (org.apache.spark.sql.classic.SparkSession) session,
        DataSourceV2Relation.create(
            reads, Option.empty(), Option.empty(), CaseInsensitiveStringMap.empty(), Option.empty()));
  }

  // One object is the table, its scan and the factory of its readers. So Spark sees that two scans
  // of it are equal.

  @Override
  public String name() {
    return "omnigraph";
  }

  @Override
  public StructType schema() {
    return schema;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Collections.singleton(TableCapability.BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return this;
  }

  @Override
  public Scan build() {
    return this;
  }

  @Override
  public StructType readSchema() {
    return schema;
  }

  @Override
  public Scan.ColumnarSupportMode columnarSupportMode() {
    return Scan.ColumnarSupportMode.SUPPORTED;
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    InputPartition[] found = new InputPartition[tasks.length];
    for (int number = 0; number < tasks.length; number++) {
      found[number] = new Task((Serializable) tasks[number]);
    }
    return found;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return this;
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    throw new UnsupportedOperationException("this source gives columns, not rows");
  }

  @Override
  @SuppressWarnings({"unchecked", "rawtypes"})
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    SQLConf conf = SQLConf.get();
    Tuple2<ChainedPythonFunctions, Object> called =
        new Tuple2<>(new ChainedPythonFunctions((Seq) listOf(function)), (Object) 0L);
    ArrowPythonRunner runner =
        new ArrowPythonRunner(
            (Seq) listOf(called),
            PythonEvalType.SQL_MAP_ARROW_ITER_UDF(),
            new int[][] {{0}},
            structOf("struct", structOf("task", given)),
            conf.sessionLocalTimeZone(),
            conf.arrowUseLargeVarTypes(),
            ArrowPythonRunner$.MODULE$.getPythonRunnerConfMap(conf),
            (Map) PythonCustomMetric$.MODULE$.pythonMetrics(),
            artifacts,
            Option.empty());
    InternalRow row = rowOf(rowOf(((Task) partition).value));
    TaskContext context = TaskContext.get();
    Iterator<ColumnarBatch> sent =
        (Iterator) runner.compute(
            (Iterator) listOf(listOf(row).iterator()).iterator(), context.partitionId(), context);
    return new Columns(sent, schema.length());
  }

  private static <T> List<T> listOf(T item) {
    return new $colon$colon<>(item, List$.MODULE$.<T>empty());
  }

  private static StructType structOf(String name, DataType type) {
    return new StructType(
        new StructField[] {DataTypes.createStructField(name, type, true)});
  }

  private static InternalRow rowOf(Object value) {
    return new GenericInternalRow(new Object[] {value});
  }

  /** What one task reads: a number, or a pickled partition. */
  private static final class Task implements InputPartition {
    private final Serializable value;

    Task(Serializable value) {
      this.value = value;
    }
  }

  /** The batches of one task. Python sends each as one struct, whose children are the columns. */
  private static final class Columns implements PartitionReader<ColumnarBatch> {
    private final Iterator<ColumnarBatch> sent;
    private final int count;

    Columns(Iterator<ColumnarBatch> sent, int count) {
      this.sent = sent;
      this.count = count;
    }

    @Override
    public boolean next() {
      return sent.hasNext();
    }

    @Override
    public ColumnarBatch get() {
      ColumnarBatch batch = sent.next();
      ArrowColumnVector whole = (ArrowColumnVector) batch.column(0);
      ColumnVector[] columns = new ColumnVector[count];
      for (int number = 0; number < count; number++) {
        columns[number] = whole.getChild(number);
      }
      return new ColumnarBatch(columns, batch.numRows());
    }

    @Override
    public void close() {
      // Spark ends the worker, or gives it the next task, when the task has ended.
    }
  }
}
