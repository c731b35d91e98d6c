# What tests of digests share: experiments, each with its constant. Sourced.
# The constants. A change of one changes every user's results: the commit must give the reason.
adamw_digest=0b1cd9be49b62c5df7773a6da8c5855cca16b3cb78b624fbc440917751485a08
sgd_digest=a845baaf6116caf59e73f795b85ecb0d712880df8d7d2d962548efe3b6f32d6a
mixed_digest=96baa90a6b3cb59dcdd89649433e2cf6d24d471ca95fc7c4aac39d5f4edb1442
norm_digest=b9868c457b30f8e6f8bd9c2289b157e71b62d7ec7e5d5ba74d41b1facda26ec0
shard_digest=1077619ba19dde530759c1b3e6a1bc5234334b8a5ca7e81beef075eca5d09156
shared_digest=6bd28e90be3ecb9dfb5c158c7feca95ae4e1285e19ff5077e3c478a0757dfcc9
rules_digest=f7d293ebbb5890babcb462f11d28d41ebff9f0dc98659d9fe5ae60420d73c246
wide_digest=50bf5db4b2382962c7e10a1c391efe1b2a76b57e3b89b865e2ab67e0452196f8
several_digest=40a81f0e28c0de17c4f93b52830ea860971ed8721be388f8563bdd81887c435c
muon_digest=97f6e0166328188b7f6030c47bc64e0b51963bb3c1b0396485984f5c9eaa9bec
ema_digest=4511ee29b38e69bd54bf636c6433dbf4f07f497f764932bcc92afb846fe40e34
adamw="--model $SRCDIR/tests/bits/tiny.yaml --optimizer adamw --lr 0.01 --clip-grad-norm 0.5"
mixed="--model $SRCDIR/tests/bits/mixed.yaml --optimizer adamw --lr 0.01 --clip-grad-norm 0.5"
norm="--model $SRCDIR/tests/bits/norm.yaml --optimizer adamw --lr 0.01 --clip-grad-norm 0.5"
shard="--model $SRCDIR/tests/bits/shard_norm.yaml --optimizer sgd --lr 0.1 --momentum 0.9"
shared="--model $SRCDIR/tests/bits/shared.yaml --optimizer adamw --lr 0.01 --clip-grad-norm 0.5"
rules="--model $SRCDIR/tests/bits/rules.yaml --optimizer adamw --lr 0.01 --clip-grad-norm 0.5 --schedule cosine"
wide="--model $SRCDIR/tests/bits/wide.yaml --optimizer adamw --lr 0.01 --clip-grad-norm 0.5"
several="--model $SRCDIR/tests/bits/several.yaml --optimizer adamw --lr 0.01 --clip-grad-norm 0.5"
muon="--model $SRCDIR/tests/bits/optimizers.yaml --optimizer adamw --lr 0.01 --clip-grad-norm 0.5"
muon="$muon --schedule triangular --start-factor 0.2 --peak 0.23 --end-factor 0.07"
muon="$muon --lookahead 3 --lookahead-decay 0.7 --lookahead-power 3"
ema="--model $SRCDIR/tests/bits/optimizers.yaml --optimizer adamw --lr 0.01 --ema 0.8"
sgd="--model $SRCDIR/tests/bits/tiny.yaml --optimizer sgd --lr 0.1 --momentum 0.9 --nesterov"
sgd="$sgd --weight-decay 0.001 --schedule onecycle"
