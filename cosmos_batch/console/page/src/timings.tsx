import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import { duration } from "./format";

// The seconds of each phase, as bars of one scale.
export function Timings({ timings }: { timings: Record<string, number> }) {
  const longest = Math.max(...Object.values(timings), 0.001);
  return (
    <Container header={<Header variant="h2">Timings</Header>}>
      <dl className="timings">
        {Object.entries(timings).map(([phase, seconds]) => (
          <div key={phase}>
            <dt>{phase}</dt>
            <dd>
              <span className="bar" style={{ width: `${(100 * seconds) / longest}%` }} />
              <span>{duration(seconds)}</span>
            </dd>
          </div>
        ))}
      </dl>
    </Container>
  );
}
