"""Plans that change while a stream runs: learned from each micro-batch, in force from one of the next on.

`parameters` is what users say, `learning` and `rule` make plans, `log` keeps them beside the checkpoint,
`current` brings the one of a micro-batch into its query, `running` ties these together for each query.
"""
