package org.omnigraph.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.spark.JobArtifactSet$;
import org.apache.spark.JobArtifactState;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceReadInfo;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonFilterPushdownResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScanBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSourceFilterPushdownRunner;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.AtomicType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The format "omnigraph" of Python, with scans that Spark tells which columns and rows it needs.
 *
 * <p>Spark takes this class before a source in Python of the same name. Python still does all the
 * work: it opens the graph, plans the tasks and reads. Writes and streams are those of Python.
 */
public final class OmnigraphFormat extends PythonDataSourceV2 implements DataSourceRegister {
  private static final String NAME = "omnigraph";

  /** Tells the source in Python that every scan has its own reader, so that it may filter. */
  private static final String OWN_READER = "omnigraph_own_reader";

  @Override
  public String shortName() {
    return NAME;
  }

  @Override
  public Table getTable(
      StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new GraphTable(this, schema);
  }

  @Override
  public PythonDataSourceCreationResult getOrCreateDataSourceInPython(
      String name, CaseInsensitiveStringMap options, Option<StructType> schema) {
    Map<String, String> told = new HashMap<>(options.asCaseSensitiveMap());
    told.put(OWN_READER, "true");
    return super.getOrCreateDataSourceInPython(name, new CaseInsensitiveStringMap(told), schema);
  }

  private static final class GraphTable extends PythonTable {
    private final OmnigraphFormat format;
    private final StructType schema;

    GraphTable(OmnigraphFormat format, StructType schema) {
      super(format, NAME, schema);
      this.format = format;
      this.schema = schema;
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return new GraphScanBuilder(format, schema, options);
    }
  }

  private static final class GraphScanBuilder extends PythonScanBuilder
      implements SupportsPushDownRequiredColumns {
    private final OmnigraphFormat format;
    private final StructType schema;
    private final CaseInsensitiveStringMap options;
    private StructType wanted;
    private Filter[] filters = {};

    GraphScanBuilder(OmnigraphFormat format, StructType schema, CaseInsensitiveStringMap options) {
      super(format, NAME, schema, options);
      this.format = format;
      this.schema = schema;
      this.wanted = schema;
      this.options = options;
    }

    /** Spark evaluates all filters again. So Python may leave out those that it cannot use. */
    @Override
    public Filter[] pushFilters(Filter[] offered) {
      filters = offered;
      return offered;
    }

    @Override
    public Filter[] pushedFilters() {
      return filters;
    }

    @Override
    public void pruneColumns(StructType required) {
      wanted = required.length() > 0 ? required : narrowest(schema);
    }

    @Override
    public Scan build() {
      return new GraphScan(format, schema, wanted, options, filters);
    }

    /** One column, because batches without columns do not tell how many rows they have. */
    private static StructType narrowest(StructType schema) {
      StructField found = schema.fields()[0];
      for (StructField field : schema.fields()) {
        boolean plain =
            field.dataType() instanceof AtomicType && !(field.dataType() instanceof BinaryType);
        if (plain && field.dataType().defaultSize() < found.dataType().defaultSize()) {
          found = field;
        }
      }
      return new StructType(new StructField[] {found});
    }
  }

  private static final class GraphScan extends PythonScan {
    private final OmnigraphFormat format;
    private final StructType schema;
    private final StructType wanted;
    private final CaseInsensitiveStringMap options;
    private final Filter[] filters;
    private final GraphBatch batch = new GraphBatch(this);

    GraphScan(
        OmnigraphFormat format,
        StructType schema,
        StructType wanted,
        CaseInsensitiveStringMap options,
        Filter[] filters) {
      super(format, NAME, wanted, options, filters);
      this.format = format;
      this.schema = schema;
      this.wanted = wanted;
      this.options = options;
      this.filters = filters;
    }

    /** A stream of changes gives rows, as all streams in Python do. */
    @Override
    public Scan.ColumnarSupportMode columnarSupportMode() {
      return options.getBoolean("changes", false)
          ? Scan.ColumnarSupportMode.UNSUPPORTED
          : Scan.ColumnarSupportMode.SUPPORTED;
    }

    /** One batch for all copies of a plan, because Python plans its tasks. */
    @Override
    public Batch toBatch() {
      return batch;
    }

    /** Python plans the tasks of this scan, with its columns and filters. */
    ColumnarReads reads() {
      PythonDataSourceCreationResult source =
          format.getOrCreateDataSourceInPython(NAME, options, Option.apply(schema));
      List<Filter> readable = new ArrayList<>();
      List<String> names = Arrays.asList(wanted.fieldNames());
      for (Filter filter : filters) {
        if (names.containsAll(Arrays.asList(filter.references()))) {
          readable.add(filter);
        }
      }
      UserDefinedPythonDataSourceFilterPushdownRunner runner =
          new UserDefinedPythonDataSourceFilterPushdownRunner(
              format.source().createPythonFunction(source.dataSource()),
              wanted,
              CollectionConverters.asScala(readable).toSeq());
      PythonDataSourceReadInfo planned =
          ((PythonFilterPushdownResult) runner.runInPython(runner.runInPython$default$1()))
              .readInfo();
      Option<JobArtifactState> state = JobArtifactSet$.MODULE$.getCurrentJobArtifactState();
      Option<String> artifacts =
          state.isDefined() ? Option.apply(state.get().uuid()) : Option.empty();
      return new ColumnarReads(
          format.source().createPythonFunction(planned.func()),
          wanted,
          DataTypes.BinaryType,
          CollectionConverters.asJava(planned.partitions()).toArray(),
          artifacts);
    }

    boolean isLike(GraphScan other) {
      return format == other.format
          && wanted.equals(other.wanted)
          && Arrays.equals(filters, other.filters);
    }
  }

  /** Two batches of one load() are equal if they read the same, so that Spark reads it once. */
  private static final class GraphBatch implements Batch {
    private final GraphScan scan;
    private ColumnarReads planned;

    GraphBatch(GraphScan scan) {
      this.scan = scan;
    }

    private synchronized ColumnarReads planned() {
      if (planned == null) {
        planned = scan.reads();
      }
      return planned;
    }

    @Override
    public InputPartition[] planInputPartitions() {
      return planned().planInputPartitions();
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      return planned();
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof GraphBatch && scan.isLike(((GraphBatch) other).scan);
    }

    @Override
    public int hashCode() {
      return Objects.hash(System.identityHashCode(scan.format), scan.wanted);
    }
  }
}
