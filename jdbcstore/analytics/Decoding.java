package jdbcstore;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetMapValue;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.ArrowEvalPython;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapInArrow;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Planner rule that replaces the MSG column by the decoded columns that the query reads, where nothing else
 * reads it: Spark then keeps no copy of the message. Where a query only looks up values in the map of
 * properties, these values are returned instead of the map. Written for Janino, which supports neither
 * lambdas nor the diamond operator.
 */
public class Decoding extends Rule {
    private static final List PLAIN = Arrays.asList(new Object[] {DataTypes.StringType, DataTypes.LongType,
        DataTypes.IntegerType, DataTypes.BooleanType, DataTypes.DoubleType});

    /** Prefix of the names of the functions that decode a column of the view. */
    private final String prefix;
    private final PythonFunction decoder;
    private final int kind;

    public Decoding(String prefix, PythonFunction decoder, int kind) {
        this.prefix = prefix;
        this.decoder = decoder;
        this.kind = kind;
    }

    public TreeNode apply(TreeNode plan) {
        return plan.transformUp(new AbstractPartialFunction() {
            public boolean isDefinedAt(Object node) {
                return node instanceof Project || node instanceof Aggregate;
            }

            public Object applyOrElse(Object node, Function1 otherwise) {
                return isDefinedAt(node) ? rewritten((LogicalPlan) node) : otherwise.apply(node);
            }
        });
    }

    private LogicalPlan rewritten(LogicalPlan top) {
        List filters = new ArrayList();
        LogicalPlan node = (LogicalPlan) top.children().head();
        while (node instanceof Filter) {
            filters.add(node);
            node = ((Filter) node).child();
        }
        if (!(node instanceof ArrowEvalPython)) {
            return top;
        }
        ArrowEvalPython evaluated = (ArrowEvalPython) node;
        Attribute blob = blobOf(evaluated);
        return blob == null ? top : new Attempt(evaluated, blob).of(top, filters);
    }

    /** The single column that all of these functions decode, if all are ours; else null. */
    private Attribute blobOf(ArrowEvalPython evaluated) {
        Attribute blob = null;
        for (Object each : CollectionConverters.asJava(evaluated.udfs())) {
            PythonUDF udf = (PythonUDF) each;
            if (!udf.name().startsWith(prefix) || udf.children().length() != 1
                || !(udf.children().head() instanceof Attribute)) {
                return null;
            }
            Attribute found = (Attribute) udf.children().head();
            if (blob != null && !blob.exprId().equals(found.exprId())) {
                return null;
            }
            blob = found;
        }
        return blob;
    }

    /** A node of the plan and the attributes that are needed there. */
    private class Attempt {
        private final ArrowEvalPython evaluated;
        private final Attribute blob;
        /** What is asked of the decoder, by how it is asked. */
        private final Map asked = new LinkedHashMap();
        private final List columns = new ArrayList();

        Attempt(ArrowEvalPython evaluated, Attribute blob) {
            this.evaluated = evaluated;
            this.blob = blob;
            for (Object udf : CollectionConverters.asJava(evaluated.udfs())) {
                columns.add(((PythonUDF) udf).name().substring(prefix.length()));
            }
        }

        LogicalPlan of(LogicalPlan top, List filters) {
            List before = new ArrayList();
            LogicalPlan above = withoutBlob(top, before);
            AttributeSet needed = above.references();
            for (Object filter : filters) {
                needed = needed.$plus$plus(((Filter) filter).references());
            }
            if (needed.contains(blob)) {
                return top;
            }
            for (Object each : CollectionConverters.asJava(evaluated.child().output())) {
                if (needed.contains((Attribute) each)) {
                    before.add(0, each);
                }
            }
            if (!plain(before)) {
                return top;
            }
            above = pruned(above);
            List conditions = new ArrayList();
            for (Object filter : filters) {
                conditions.add(pruned((LogicalPlan) filter));
            }
            LogicalPlan result = decoded(before);
            for (int number = conditions.size() - 1; number >= 0; number--) {
                result = with((LogicalPlan) conditions.get(number), result);
            }
            return with(above, result);
        }

        /** Whether all of these go through Arrow and back as they are: what is joined may be anything. */
        private boolean plain(List before) {
            Set names = new HashSet();
            for (Object each : before) {
                Attribute attribute = ((NamedExpression) each).toAttribute();
                if (!names.add(attribute.name()) || !PLAIN.contains(attribute.dataType())) {
                    return false;
                }
            }
            return true;
        }

        /** The projection without what it makes of the message itself, which then comes before. */
        private LogicalPlan withoutBlob(LogicalPlan top, List before) {
            if (!(top instanceof Project)) {
                return top;
            }
            List list = new ArrayList();
            for (Object each : CollectionConverters.asJava(((Project) top).projectList())) {
                NamedExpression named = (NamedExpression) each;
                AttributeSet of = ((Expression) named).references();
                boolean made = named instanceof Alias && of.contains(blob)
                    && of.subsetOf(evaluated.child().outputSet());
                list.add(made ? named.toAttribute() : named);
                if (made) {
                    before.add(named);
                }
            }
            return new Project(sequence(list), ((Project) top).child());
        }

        /** Each use of what is decoded noted, and values looked up in maps replaced by what is sent. */
        private LogicalPlan pruned(LogicalPlan node) {
            return (LogicalPlan) node.transformExpressionsDown(new AbstractPartialFunction() {
                public boolean isDefinedAt(Object expression) {
                    return expression instanceof GetStructField || expression instanceof Attribute;
                }

                public Object applyOrElse(Object expression, Function1 otherwise) {
                    return isDefinedAt(expression) ? ask((Expression) expression) : otherwise.apply(expression);
                }
            });
        }

        private Expression ask(Expression expression) {
            if (expression instanceof Attribute) {
                int place = placeOf(expression);
                if (place >= 0) {
                    asked.put(columns.get(place), expression);
                }
                return expression;
            }
            GetStructField field = (GetStructField) expression;
            if (!(field.child() instanceof GetMapValue)) {
                return expression;
            }
            GetMapValue value = (GetMapValue) field.child();
            int place = placeOf(value.child());
            if (place < 0 || !(value.key() instanceof Literal) || ((Literal) value.key()).value() == null) {
                return expression;
            }
            String key = columns.get(place) + "." + field.ordinal() + "." + hex(((Literal) value.key()).value());
            if (!asked.containsKey(key)) {
                asked.put(key, attribute(key, field));
            }
            return (Expression) asked.get(key);
        }

        private int placeOf(Expression expression) {
            int place = 0;
            for (Object each : CollectionConverters.asJava(evaluated.resultAttrs())) {
                if (expression instanceof Attribute
                    && ((Attribute) each).exprId().equals(((Attribute) expression).exprId())) {
                    return place;
                }
                place++;
            }
            return -1;
        }

        /** What comes before, and behind it what is asked. */
        private LogicalPlan decoded(List before) {
            String question = String.join(",", asked.keySet());
            List below = new ArrayList(before);
            below.add(new Alias(blob, question, NamedExpression$.MODULE$.newExprId(), empty(),
                Option.empty(), empty()));
            Project child = new Project(sequence(below), evaluated.child());
            List output = new ArrayList();
            StructType schema = new StructType();
            for (Object each : before) {
                Attribute attribute = ((NamedExpression) each).toAttribute();
                output.add(attribute);
                schema = schema.add(new StructField(attribute.name(), attribute.dataType(), true, Metadata.empty()));
            }
            for (Object each : asked.entrySet()) {
                Map.Entry entry = (Map.Entry) each;
                Attribute attribute = (Attribute) entry.getValue();
                output.add(attribute);
                schema = schema.add(
                    new StructField((String) entry.getKey(), attribute.dataType(), true, Metadata.empty()));
            }
            PythonUDF udf = new PythonUDF(prefix + question, decoder, schema, (Seq) child.output(), kind, true,
                NamedExpression$.MODULE$.newExprId());
            return new MapInArrow(udf, sequence(output), child, false, Option.empty());
        }
    }

    private static Attribute attribute(String name, GetStructField field) {
        return new AttributeReference(name, field.dataType(), true, Metadata.empty(),
            NamedExpression$.MODULE$.newExprId(), empty());
    }

    private static LogicalPlan with(LogicalPlan node, LogicalPlan child) {
        List children = new ArrayList();
        children.add(child);
        return (LogicalPlan) node.withNewChildren(sequence(children));
    }

    private static Seq sequence(List items) {
        return CollectionConverters.asScala(items).toSeq();
    }

    private static Seq empty() {
        return sequence(new ArrayList());
    }

    /** A name of any characters, encoded for the comma-separated request. */
    private static String hex(Object name) {
        StringBuilder text = new StringBuilder();
        for (byte each : name.toString().getBytes(StandardCharsets.UTF_8)) {
            text.append(Character.forDigit((each >> 4) & 15, 16)).append(Character.forDigit(each & 15, 16));
        }
        return text.toString();
    }
}
