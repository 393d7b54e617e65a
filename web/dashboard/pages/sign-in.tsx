import { useState } from "preact/hooks";
import { api, ask } from "../api.ts";
import { Field } from "../parts/field.tsx";
import { FormProblem, TextInput, useSubmit } from "../parts/form.tsx";
import { adoptSession } from "../session.ts";

export function SignIn() {
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const form = useSubmit(async () => adoptSession(await ask(api.v1.auth.login.post({ email, password }))));
  return (
    <main class="gate">
      <form class="card stack" onSubmit={form.onSubmit}>
        <h1>Sign in to Stoa</h1>
        <Field label="E-mail address" error={form.problem("email")}>
          <TextInput type="email" autocomplete="username" required value={email} onValue={setEmail} />
        </Field>
        <Field label="Password" error={form.problem("password")}>
          <TextInput type="password" autocomplete="current-password" required value={password} onValue={setPassword} />
        </Field>
        <FormProblem failure={form.failure} />
        <button type="submit" class="button primary" disabled={form.busy}>
          Sign in
        </button>
      </form>
    </main>
  );
}
