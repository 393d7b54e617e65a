import { api, ask } from "../../api.ts";
import { Action } from "../action.tsx";
import { words } from "../states.tsx";

const TITLES: Record<string, string> = { google: "Google", github: "GitHub" };

/** Signing in through somebody else. */
export function Providers({ names, onLeave }: { names: readonly string[]; onLeave?: () => void }) {
  if (names.length === 0) return null;
  return (
    <div class="stack">
      <p class="or">or</p>
      {names.map((provider) => (
        <Action
          key={provider}
          run={async () => {
            const { authorizationUrl } = await ask(api.v1.auth.oauth({ provider }).start.post());
            onLeave?.();
            location.assign(authorizationUrl);
          }}
        >
          {`Continue with ${TITLES[provider] ?? words(provider)}`}
        </Action>
      ))}
    </div>
  );
}
