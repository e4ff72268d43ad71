package jdbcstore.tests;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

/** Files of this machine under another scheme, with renames as of an object store: copied one by one, then deleted. */
public class Unatomic extends RawLocalFileSystem {
    public URI getUri() {
        return URI.create("unatomic:///");
    }

    public String getScheme() {
        return "unatomic";
    }

    public boolean rename(Path source, Path target) throws IOException {
        if (!exists(source)) {
            return false;
        }
        Path place = exists(target) && getFileStatus(target).isDirectory()
            ? new Path(target, source.getName()) : target;
        copy(source, place);
        return delete(source, true);
    }

    private void copy(Path source, Path target) throws IOException {
        if (!getFileStatus(source).isDirectory()) {
            FileUtil.copy(this, source, this, target, false, true, getConf());
            return;
        }
        mkdirs(target);
        for (FileStatus each : listStatus(source)) {
            copy(each.getPath(), new Path(target, each.getPath().getName()));
        }
    }
}
