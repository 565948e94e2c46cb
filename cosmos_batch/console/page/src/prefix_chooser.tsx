import Alert from "@cloudscape-design/components/alert";
import Button from "@cloudscape-design/components/button";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import { useState } from "react";
import { ask, usePolled } from "./api";
import { count } from "./format";
import type { Prefix } from "./types";

interface PrefixChooserProps {
  // The prefixes below which files may lie.
  roots: string[];
  onChoose: (uri: string) => void;
}

// Shows what lies in S3, prefix by prefix, until a person takes one.
export function PrefixChooser({ roots, onChoose }: PrefixChooserProps) {
  const [open, setOpen] = useState(false);
  const [path, setPath] = useState<string[]>([]); // from a root down to the prefix that is looked at
  const at = path.at(-1);
  return (
    <ExpandableSection headerText="Choose a prefix" expanded={open} onChange={({ detail }) => setOpen(detail.expanded)}>
      {open && at === undefined && <Prefixes uris={roots} above="" onOpen={(uri) => setPath([uri])} />}
      {open && at !== undefined && (
        <InPrefix
          key={at}
          uri={at}
          onOpen={(uri) => setPath([...path, uri])}
          onBack={() => setPath(path.slice(0, -1))}
          onChoose={() => {
            setOpen(false);
            onChoose(at);
          }}
        />
      )}
    </ExpandableSection>
  );
}

interface InPrefixProps {
  uri: string;
  onOpen: (uri: string) => void;
  onBack: () => void;
  onChoose: () => void;
}

function InPrefix({ uri, onOpen, onBack, onChoose }: InPrefixProps) {
  const { value, error } = usePolled<Prefix>(
    uri,
    () => ask(`/api/prefix?${new URLSearchParams({ uri })}`),
    () => null,
  );
  const more = value?.hasMore ? ", and more than are listed here" : "";
  return (
    <div className="prefix">
      <div className="run-line">
        <Button variant="inline-link" onClick={onBack}>
          Back
        </Button>
        <span className="spoken">{uri}</span>
        <span className="faint" role="status">
          {value && `${count(value.files, "video or image", "videos and images")} in it${more}`}
        </span>
        <Button onClick={onChoose}>Take all below it</Button>
      </div>
      {error && <Alert type="error">{error}</Alert>}
      {value && <Prefixes uris={value.prefixes} above={uri} onOpen={onOpen} />}
    </div>
  );
}

function Prefixes({ uris, above, onOpen }: { uris: string[]; above: string; onOpen: (uri: string) => void }) {
  return (
    <ul className="prefixes" aria-label="Prefixes">
      {uris.map((uri) => (
        <li key={uri}>
          <Button variant="inline-link" onClick={() => onOpen(uri)}>
            {uri.slice(above.length)}
          </Button>
        </li>
      ))}
    </ul>
  );
}
