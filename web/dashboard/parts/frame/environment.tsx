import { useLocation } from "preact-iso";
import { ENVIRONMENTS, type Environment } from "../../../../src/protocol/enums.ts";
import { environment, projectPath } from "../../address.ts";

const LABELS: Record<Environment, string> = { DEVELOPMENT: "Development", PRODUCTION: "Production" };

/** The environment is always visible, because a change in the wrong one does the most harm. */
export function EnvironmentSwitch() {
  const { path, route } = useLocation();
  const choose = (chosen: Environment) => {
    environment.value = chosen;
    // A record belongs to one environment, so switching leads to the list.
    const [, projectId, section, record] = /^\/projects\/([^/]+)\/([^/]+)\/(.+)/.exec(path) ?? [];
    if (projectId !== undefined && record !== undefined) route(projectPath(projectId, section));
  };
  return (
    <fieldset class={`environment ${environment.value === "PRODUCTION" ? "production" : ""}`}>
      <legend class="hidden">Environment</legend>
      {ENVIRONMENTS.map((name) => (
        <label key={name}>
          <input
            type="radio"
            name="environment"
            value={name}
            checked={environment.value === name}
            onChange={() => choose(name)}
          />
          <span>{LABELS[name]}</span>
        </label>
      ))}
    </fieldset>
  );
}
