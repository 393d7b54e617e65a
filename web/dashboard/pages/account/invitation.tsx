import { useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { projectPath } from "../../address.ts";
import { api, ask } from "../../api.ts";
import { useLive } from "../../live.ts";
import { heldInvitation, takeToken } from "../../one-time-token.ts";
import { Action } from "../../parts/action.tsx";
import { Gate } from "../../parts/frame/gate.tsx";
import { Providers } from "../../parts/frame/providers.tsx";
import { Shown, words } from "../../parts/states.tsx";
import { Ago } from "../../parts/time.tsx";
import { signedIn, signOut, user } from "../../session.ts";
import { RegisterForm } from "./register.tsx";
import { SignInForm } from "./sign-in.tsx";

/** An invitation to a project: accepted by whoever is signed in, or with a new account. */
export function Invitation() {
  const [token] = useState(() => takeToken() ?? "");
  const { route } = useLocation();
  const [known, setKnown] = useState(false);
  const preview = useLive(() => ask(api.v1.invitations({ token }).get()), [token], 0);
  const registration = useLive(() => ask(api.v1.auth.registration.get()), [], 0);
  const accept = async () => route(projectPath((await ask(api.v1.invitations({ token }).accept.post())).id), true);
  return (
    <Gate title="You are invited">
      <Shown live={preview}>
        {({ projectName, email, role, invitedBy, expiresAt }) => (
          <>
            <p>
              {invitedBy ?? "The operator"} invites {email} to the project <b>{projectName}</b>, as{" "}
              {words(role).toLowerCase()}. The invitation ends <Ago at={expiresAt} />.
            </p>
            {signedIn.value ? (
              <>
                <p class="quiet">You are signed in as {user.value?.email}.</p>
                <Action tone="primary" run={accept} done={`Welcome to ${projectName}.`}>
                  Accept
                </Action>
                <Action tone="quiet" run={signOut}>
                  Use another account
                </Action>
              </>
            ) : (
              <>
                {known ? (
                  <SignInForm />
                ) : (
                  <RegisterForm email={email} inviteToken={token} onDone={() => route("/", true)} />
                )}
                <Providers names={registration.data?.providers ?? []} onLeave={() => heldInvitation.keep(token)} />
                <p class="small">
                  <button type="button" class="link" onClick={() => setKnown(!known)}>
                    {known ? "Create an account instead" : "I have an account"}
                  </button>
                </p>
              </>
            )}
          </>
        )}
      </Shown>
    </Gate>
  );
}
